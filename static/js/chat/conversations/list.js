// The list: fetched anew when it is no longer true, without losing the place that one is at.

import { ANY_ID } from "../ids.js";

const REMEMBERED_FOLDERS = 40; // a cookie has room for about a hundred

export class ConversationList {
  constructor(aside, requests) {
    this.aside = aside;
    this.requests = requests;
    this.held = 0; // how many menus and fields are open in it
    this.wanted = false; // it is to be fetched once they are closed
    this.fetching = null;
    // A folder that opens is fetched with what it holds.
    aside.addEventListener("toggle", (event) => this.#onFolder(event), { capture: true });
    this.#rememberFolders();
  }

  get root() {
    return document.getElementById("conversation-list");
  }

  get isArchive() {
    return this.root.dataset.archive === "true";
  }

  /** The open conversation; null for a new one. */
  get current() {
    return document.getElementById("chat").dataset.conversation || null;
  }

  url(conversation) {
    return this.aside.dataset.conversationUrl.replace(ANY_ID, conversation);
  }

  row(conversation) {
    return this.root.querySelector(`[data-conversation="${conversation}"]`);
  }

  folders() {
    return [...this.root.querySelectorAll(".folder")];
  }

  /** The link that is nearest to a row that goes. */
  neighbour(row) {
    const links = [...this.root.querySelectorAll(".conversation > a")];
    const at = links.indexOf(row.querySelector("a"));
    return links[at + 1] ?? links[at - 1] ?? this.aside.querySelector("[data-new-chat]");
  }

  /** While something is open in it, it stays as it is. */
  hold(holding) {
    this.held += holding ? 1 : -1;
    if (!this.held && this.wanted) this.refresh();
  }

  /** Fetch it anew; several wishes at a time are one. Resolves when it is shown. */
  refresh() {
    this.wanted = true;
    this.fetching ??= this.#fetchWanted().finally(() => (this.fetching = null));
    return this.fetching;
  }

  /** The archive, or all that is not in it. */
  async show({ archive }) {
    this.root.dataset.archive = String(archive);
    await this.refresh();
    this.root.scrollTop = 0;
    const head = archive ? this.root.querySelector("#list-archive") : null;
    (head ?? this.aside.querySelector("[data-list-menu]")).focus();
  }

  async #fetchWanted() {
    while (this.wanted && !this.held) {
      this.wanted = false;
      const html = await this.requests.get(this.#address());
      if (html === null) return;
      if (this.held) this.wanted = true;
      else this.#replace(html);
    }
  }

  #address() {
    const shown = this.root.querySelectorAll("[data-by-date] > .conversation").length;
    const asked = new URLSearchParams({
      current: this.current ?? "",
      shown: String(shown),
      archive: this.isArchive ? "1" : "0",
    });
    return `${this.aside.dataset.listUrl}?${asked}`;
  }

  #replace(html) {
    const { root } = this;
    const focused = root.contains(document.activeElement) ? document.activeElement.id : "";
    const scrolled = root.scrollTop;
    const template = document.createElement("template");
    template.innerHTML = html;
    const fresh = template.content.firstElementChild;
    root.replaceWith(fresh);
    window.htmx?.process(fresh);
    fresh.scrollTop = scrolled;
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  #onFolder(event) {
    const folder = event.target.closest?.(".folder");
    if (!folder) return;
    this.#rememberFolders();
    const isEmpty = !folder.querySelector(".conversation-rows, .no-conversations");
    if (event.target.open && isEmpty) this.refresh();
  }

  #rememberFolders() {
    if (this.isArchive) return;
    const open = this.folders().filter((each) => each.querySelector("details").open);
    const ids = open.slice(0, REMEMBERED_FOLDERS).map((each) => each.dataset.folderId);
    const path = new URL(this.aside.dataset.homeUrl, location).pathname;
    document.cookie = `chat_folders=${ids.join(".")}; path=${path}; SameSite=Lax`;
  }
}
