// What one does with a conversation.

import { fill, gettext } from "../../i18n.js";

export class Actions {
  constructor({ list, requests, toasts }) {
    Object.assign(this, { list, requests, toasts });
  }

  async rename(row, title) {
    const { conversation } = row.dataset;
    const now = await this.#post(row, "rename/", { title });
    if (now === null) return;
    if (conversation === this.list.current) {
      document.getElementById("conversation-title").textContent = now;
    }
    await this.list.refresh();
  }

  async pin(row, pinned) {
    if ((await this.#post(row, "pin/", { pinned: pinned ? "1" : "0" })) === null) return;
    await this.#moved(row);
  }

  async archive(row, archived) {
    const { conversation, title } = row.dataset;
    if ((await this.#post(row, "archive/", { archived: archived ? "1" : "0" })) === null) return;
    const next = this.list.neighbour(row);
    await this.list.refresh();
    this.#focus(next);
    const words = archived ? gettext("“%(title)s” is archived.") : gettext("“%(title)s” is back.");
    this.toasts.show({
      words: fill(words, { title }),
      action: gettext("Undo"),
      onAction: async () => {
        const url = `${this.list.url(conversation)}archive/`;
        await this.requests.post(url, { archived: archived ? "0" : "1" });
        await this.list.refresh();
        this.#focus(this.list.row(conversation)?.querySelector("a"));
      },
      onGone: (hadFocus) => hadFocus && this.#focus(next),
    });
  }

  async remove(row) {
    const { conversation, title } = row.dataset;
    if ((await this.#post(row, "delete/")) === null) return;
    if (conversation === this.list.current) {
      this.toasts.keep({ id: conversation, title });
      location.assign(this.list.aside.dataset.homeUrl);
      return;
    }
    const next = this.list.neighbour(row);
    await this.list.refresh();
    const toast = this.toasts.show({
      words: fill(gettext("“%(title)s” is deleted."), { title }),
      action: gettext("Undo"),
      onAction: () => this.restore(conversation),
      onGone: (hadFocus) => hadFocus && this.#focus(next),
    });
    // The row is gone that had the focus: what can be done next gets it.
    toast.querySelector("button").focus();
  }

  /** Bring back what was deleted; `open`: it was the one that was being read. */
  async restore(conversation, { open = false } = {}) {
    const url = this.list.url(conversation);
    if ((await this.requests.post(`${url}restore/`)) === null) return;
    if (open) {
      location.assign(url);
      return;
    }
    await this.list.refresh();
    this.#focus(this.list.row(conversation)?.querySelector("a"));
  }

  async #moved(row) {
    const { conversation } = row.dataset;
    await this.list.refresh();
    this.#focus(this.list.row(conversation)?.querySelector("a"));
  }

  #focus(link) {
    // One that was fetched anew since is another element of the same name.
    const there = link?.id ? document.getElementById(link.id) : link;
    (there ?? this.list.aside.querySelector("[data-new-chat]")).focus();
  }

  #post(row, action, values) {
    return this.requests.post(`${this.list.url(row.dataset.conversation)}${action}`, values);
  }
}
