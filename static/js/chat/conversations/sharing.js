// The dialogs about sharing: one conversation's, and all that one shares.

import { gettext } from "../../i18n.js";

const COPIED_MS = 2000;

export class Sharing {
  constructor(dialog, { list, requests }) {
    Object.assign(this, { dialog, list, requests });
    this.body = dialog.querySelector("[data-share-body]");
    dialog.addEventListener("click", (event) => this.#onClick(event));
  }

  open(row) {
    return this.#show(`${this.list.url(row.dataset.conversation)}share/`);
  }

  openAll() {
    return this.#show(this.list.aside.dataset.sharesUrl);
  }

  async #show(url) {
    this.url = url;
    if (this.#fill(await this.requests.get(url)) && !this.dialog.open) this.dialog.showModal();
  }

  async #onClick(event) {
    const button = event.target.closest("button");
    if (!button) return;
    if ("shareNow" in button.dataset) this.#fill(await this.requests.post(this.url));
    if ("shareCopy" in button.dataset) await copy(this.body.querySelector("#share-address"), button);
    if (button.dataset.shareRevoke) await this.#revoke(button.dataset.shareRevoke);
  }

  async #revoke(url) {
    if ((await this.requests.post(url)) === null) return;
    this.#fill(await this.requests.get(this.url));
  }

  /** Show a part; its heading gets the focus that the button before it had. */
  #fill(html) {
    if (html === null) return false;
    const template = document.createElement("template");
    template.innerHTML = html;
    this.body.replaceChildren(template.content);
    const first = this.body.querySelector("[data-share-focus]") ?? this.body.querySelector("h2");
    if (this.dialog.open) first.focus();
    return true;
  }
}

async function copy(field, button) {
  const label = button.querySelector("span");
  const before = label.textContent;
  try {
    await navigator.clipboard.writeText(field.value);
    label.textContent = gettext("Copied");
    setTimeout(() => (label.textContent = before), COPIED_MS);
  } catch {
    // The browser refused the clipboard: the address is selected, to be copied by hand.
    field.focus();
    field.select();
  }
}
