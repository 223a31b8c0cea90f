// The frame around the thread: its address, its title, the list beside it, and refusals.

import { fill, gettext } from "../i18n.js";

export class Page {
  constructor(element, urls) {
    this.element = element;
    this.urls = urls;
    this.title = document.getElementById("conversation-title");
    this.refusal = document.getElementById("refusal");
    this.drawerButton = element.querySelector(".drawer-button");
    this.titleEnd = document.title.slice(document.title.lastIndexOf(" · "));
  }

  /** The id of the conversation that is open; null for a new one. */
  get conversation() {
    return this.element.dataset.conversation || null;
  }

  /** A first question makes a conversation: it gets its address and its place in the list. */
  opened(conversation, title) {
    this.element.dataset.conversation = conversation;
    history.replaceState(null, "", this.urls.conversation(conversation));
    this.titled(title);
    this.listed(conversation);
  }

  titled(title) {
    this.title.textContent = title;
    document.title = fill(gettext("%(title)s · Chat"), { title }) + this.titleEnd;
  }

  /** The list beside the thread is no longer true: who shows it listens. */
  listed(conversation) {
    document.dispatchEvent(new CustomEvent("chat:listed", { detail: { conversation } }));
  }

  refuse(words) {
    this.refusal.hidden = !words;
    this.refusal.textContent = words;
  }

  toggleDrawer() {
    const open = this.element.dataset.drawer !== "open";
    this.element.dataset.drawer = open ? "open" : "closed";
    this.drawerButton.setAttribute("aria-expanded", String(open));
    if (open) this.element.querySelector(".conversations a").focus();
    else this.drawerButton.focus();
  }

  /** Answers whether the drawer was open. */
  closeDrawer() {
    const open = this.element.dataset.drawer === "open";
    if (open) this.toggleDrawer();
    return open;
  }
}
