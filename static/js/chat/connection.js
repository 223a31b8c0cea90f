// What a person is told about the connection.

import { gettext } from "../i18n.js";

const SAID_AFTER_MS = 1000; // a connection that comes up at once is not worth a word

export class Connection {
  /** `line` has a place for words and a link to sign in. */
  constructor(line) {
    this.line = line;
    this.words = line.querySelector("[data-words]");
    this.link = line.querySelector("[data-sign-in]");
  }

  /** `state` as the socket tells it; `answering`: whether an answer is being written. */
  show(state, { code, answering }) {
    clearTimeout(this.timer);
    if (state === "open") this.say("");
    else if (state === "closed") this.say(closed(code), code === 4401);
    else if (!this.line.hidden || !navigator.onLine) this.say(lost(answering));
    else this.timer = setTimeout(() => this.say(lost(answering)), SAID_AFTER_MS);
  }

  say(words, maySignIn = false) {
    this.line.hidden = !words;
    if (this.words.textContent !== words) this.words.textContent = words;
    this.link.hidden = !maySignIn;
    // The address of a new chat has changed since the page was made.
    this.link.search = new URLSearchParams({ next: location.pathname });
  }
}

function closed(code) {
  if (code === 4401) return gettext("You have been signed out. What you typed is kept.");
  return gettext("You may no longer chat here. Ask a tenant manager for access.");
}

function lost(answering) {
  if (!navigator.onLine) {
    return answering
      ? gettext("You are offline. The answer goes on meanwhile and will be shown here.")
      : gettext("You are offline. What you type is kept.");
  }
  return answering
    ? gettext("Connecting again… The answer goes on meanwhile.")
    : gettext("Connecting…");
}
