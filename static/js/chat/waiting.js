// How long an answer has been waited for, and how many are before it.

import { fill, gettext, ngettext } from "../i18n.js";

const SAID_AFTER_S = 10; // what is shorter needs no clock

export class Waiting {
  /** `line` is the place for the words, beside what is being done. */
  constructor(line) {
    this.line = line;
    this.began = Date.now();
    this.told = null; // the last word about a line that the answer stands in
    this.ticking = line && setInterval(() => this.say(), 1000);
  }

  receive(frame) {
    if (frame.type === "answer.waiting") this.told = frame;
    else if (frame.type === "answer.hop" && frame.state === "started") this.told = null;
    else if (frame.type === "answer.tokens" || frame.type === "answer.block") this.end();
    if (this.ticking) this.say();
  }

  say() {
    const seconds = Math.floor((Date.now() - this.began) / 1000);
    const words = [];
    if (this.told) words.push(inLine(this.told));
    if (seconds >= SAID_AFTER_S) {
      words.push(fill(gettext("%(seconds)s s so far"), { seconds }));
    }
    const line = words.filter(Boolean).join(" · ");
    if (this.line.textContent !== line) this.line.textContent = line;
  }

  end() {
    clearInterval(this.ticking);
    this.ticking = undefined;
    if (this.line) this.line.textContent = "";
  }
}

/** How many are before it; where that is not known, how many wait in all. */
function inLine({ place, of }) {
  if (place > 0) return fill(ngettext("%(place)s before you", "%(place)s before you", place), { place });
  if (place === null && of > 0) return fill(ngettext("%(of)s waiting", "%(of)s waiting", of), { of });
  return "";
}
