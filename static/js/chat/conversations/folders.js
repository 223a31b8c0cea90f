// Folders: made, renamed, removed, and what is put into them.

import { gettext } from "../../i18n.js";

export class Folders {
  constructor({ list, requests }) {
    Object.assign(this, { list, requests });
    this.dialog = document.getElementById("folder-dialog");
    this.moving = document.getElementById("move-dialog");
    this.dialog.querySelector("form").addEventListener("submit", (event) => this.#save(event));
    this.moving.querySelector("form").addEventListener("submit", (event) => this.#move(event));
  }

  create() {
    this.#name(gettext("New folder"), "", this.list.aside.dataset.foldersUrl);
  }

  rename(folder) {
    this.#name(gettext("Rename folder"), folder.dataset.name, this.#url(folder, "rename/"));
  }

  /** Nothing is lost with a folder, so nothing is asked. */
  async remove(folder) {
    if ((await this.requests.post(this.#url(folder, "delete/"))) === null) return;
    await this.list.refresh();
    this.list.aside.querySelector("[data-list-menu]").focus();
  }

  /** Ask where a conversation is to go. */
  choose(row) {
    this.row = row;
    const { folder, title } = row.dataset;
    this.moving.querySelector("[data-move-name]").textContent = title;
    const choices = this.list.folders().map(({ dataset }) => [dataset.folderId, dataset.name]);
    this.moving
      .querySelector("[data-move-choices]")
      .replaceChildren(
        ...[["", gettext("No folder")], ...choices].map(([value, name]) =>
          choice(value, name, value === folder),
        ),
      );
    this.moving.querySelector("[name=name]").value = "";
    this.#refuse(this.moving, "");
    this.moving.showModal();
    this.moving.querySelector("input:checked")?.focus();
  }

  #name(title, name, url) {
    this.url = url;
    this.dialog.querySelector("[data-folder-title]").textContent = title;
    this.dialog.querySelector("input").value = name;
    this.#refuse(this.dialog, "");
    this.dialog.showModal();
    this.dialog.querySelector("input").select();
  }

  async #save(event) {
    event.preventDefault();
    const name = new FormData(event.target).get("name");
    const refuse = (words) => this.#refuse(this.dialog, words);
    if ((await this.requests.post(this.url, { name }, refuse)) === null) return;
    this.dialog.close();
    await this.list.refresh();
  }

  async #move(event) {
    event.preventDefault();
    const values = new FormData(event.target);
    const name = values.get("name").trim();
    const refuse = (words) => this.#refuse(this.moving, words);
    const { foldersUrl } = this.list.aside.dataset;
    const made = name ? await this.requests.post(foldersUrl, { name }, refuse) : "";
    if (made === null) return;
    const { conversation } = this.row.dataset;
    const folder = made || values.get("folder") || "";
    const url = `${this.list.url(conversation)}move/`;
    if ((await this.requests.post(url, { folder }, refuse)) === null) return;
    this.moving.close();
    await this.list.refresh();
    const link = this.list.row(conversation)?.querySelector("a");
    // In a folder that is closed it cannot be seen: the folder can.
    (link ?? document.getElementById(`folder-${folder}`))?.focus();
  }

  #refuse(dialog, words) {
    const said = dialog.querySelector("[role=alert]");
    said.textContent = words;
    said.hidden = !words;
    dialog.querySelector("[name=name]").setAttribute("aria-invalid", String(Boolean(words)));
  }

  #url(folder, action) {
    return `${this.list.aside.dataset.foldersUrl}${folder.dataset.folderId}/${action}`;
  }
}

function choice(value, name, checked) {
  const label = document.createElement("label");
  label.className = "check";
  const input = document.createElement("input");
  Object.assign(input, { type: "radio", name: "folder", value, checked });
  const text = document.createElement("span");
  text.dir = "auto";
  text.textContent = name;
  label.append(input, text);
  return label;
}
