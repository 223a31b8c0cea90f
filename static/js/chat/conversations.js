// The list of conversations and what one does with them: puts its parts together.

import { fill, gettext } from "../i18n.js";
import { Actions } from "./conversations/actions.js";
import { Folders } from "./conversations/folders.js";
import { ConversationList } from "./conversations/list.js";
import { Menu } from "./conversations/menu.js";
import { renameInPlace } from "./conversations/renaming.js";
import { Requests } from "./conversations/requests.js";
import { Search } from "./conversations/search.js";
import { Sharing } from "./conversations/sharing.js";
import { Toasts } from "./conversations/toasts.js";

const aside = document.getElementById("conversations");
if (aside) start(aside);

function start(aside) {
  const toasts = new Toasts(document.getElementById("toasts"));
  const requests = new Requests((words) => toasts.show({ words }));
  const list = new ConversationList(aside, requests);
  const folders = new Folders({ list, requests });
  const sharing = new Sharing(document.getElementById("share-dialog"), { list, requests });
  const actions = new Actions({ list, requests, toasts });
  const rename = (row) =>
    renameInPlace(row, {
      hold: (holding) => list.hold(holding),
      save: (title) => actions.rename(row, title),
    });
  const done = {
    rename,
    pin: (row) => actions.pin(row, true),
    unpin: (row) => actions.pin(row, false),
    archive: (row) => actions.archive(row, true),
    unarchive: (row) => actions.archive(row, false),
    move: (row) => folders.choose(row),
    share: (row) => sharing.open(row),
    delete: (row) => actions.remove(row),
    "rename-folder": (folder) => folders.rename(folder),
    "delete-folder": (folder) => folders.remove(folder),
    "new-folder": () => folders.create(),
    shares: () => sharing.openAll(),
    "show-archive": () => list.show({ archive: true }),
  };
  const menu = (id, prepare) =>
    new Menu(document.getElementById(id), {
      onToggle: (open) => list.hold(open),
      onChoose: (name, subject) => done[name](subject),
      prepare,
    });
  const menus = {
    conversation: menu("conversation-menu", (element, row) => prepare(element, row, list)),
    folder: menu("folder-menu"),
    list: menu("list-menu"),
  };

  aside.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if ("conversationMenu" in button.dataset)
      menus.conversation.toggle(button, button.closest(".conversation"));
    if ("folderMenu" in button.dataset) menus.folder.toggle(button, button.closest(".folder"));
    if ("listMenu" in button.dataset) menus.list.toggle(button, null);
    if ("showArchive" in button.dataset) list.show({ archive: true });
    if ("showList" in button.dataset) list.show({ archive: false });
  });
  new Search(document.getElementById("search-dialog"), aside.querySelector("[data-search-open]"));
  document.addEventListener("chat:listed", () => list.refresh());
  toasts.showKept((kept) => ({
    words: fill(gettext("“%(title)s” is deleted."), { title: kept.title }),
    action: gettext("Undo"),
    onAction: () => actions.restore(kept.id, { open: true }),
  }));
  showTarget();
}

/** The menu of a conversation fits the conversation. */
function prepare(element, row, list) {
  const { pinned, archived } = row.dataset;
  const shown = {
    pinned: pinned === "true",
    "not-pinned": pinned !== "true",
    archived: archived === "true",
    "not-archived": archived !== "true",
  };
  for (const item of element.querySelectorAll("[data-when]")) {
    item.hidden = !item.dataset.when.split(" ").every((state) => shown[state]);
  }
  for (const link of element.querySelectorAll("[data-export]")) {
    link.href = `${list.url(row.dataset.conversation)}export/${link.dataset.export}/`;
  }
}

/** A message that the address names is shown, and is where one reads on from. */
function showTarget() {
  const target = /^#(answer|question)-/.test(location.hash)
    ? document.getElementById(location.hash.slice(1))
    : null;
  if (!target) return;
  requestAnimationFrame(() => {
    target.tabIndex = -1;
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: "start" });
  });
}
