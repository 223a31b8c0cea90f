// Uploads on a collection's page: files and folders, dropped or chosen.

import { entriesOf, filesOf, filesOfInput } from "./upload/files.js";
import { Panel } from "./upload/panel.js";
import { Sender } from "./upload/sender.js";

const REFRESH_MS = 2000; // of the documents below, while files arrive

function watch(form) {
  const uploads = new Uploads(form);
  for (const id of ["files", "folder"]) {
    const input = document.getElementById(id);
    input.addEventListener("change", () => {
      uploads.add(filesOfInput(input.files));
      input.value = ""; // the same file may be chosen again
    });
  }
  let depth = 0; // dragenter and dragleave also fire for the children
  const over = (change) => {
    depth = Math.max(0, depth + change);
    form.classList.toggle("over", depth > 0);
  };
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragenter", (event) => carriesFiles(event) && over(1));
  addEventListener("dragleave", (event) => carriesFiles(event) && over(-1));
  // A file dropped beside the field must not replace the page.
  addEventListener("dragover", (event) => carriesFiles(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0;
    over(0);
    uploads.drop(event.dataTransfer);
  });
  addEventListener("beforeunload", (event) => {
    if (uploads.isBusy) event.preventDefault();
  });
}

/** One upload is shown at a time; what is added meanwhile goes into the next. */
class Uploads {
  constructor(form) {
    this.form = form;
    this.panel = new Panel(document.getElementById("uploads"));
    this.sender = null;
    this.next = [];
    this.refresh = 0;
    this.panel.part("cancel").addEventListener("click", () => this.cancel());
    this.panel.part("dismiss").addEventListener("click", () => this.panel.close());
    this.panel.part("again").addEventListener("click", () => this.again());
  }

  get isBusy() {
    return Boolean(this.sender?.isBusy);
  }

  async drop(transfer) {
    const files = [...transfer.files];
    const entries = entriesOf(transfer);
    if (!entries?.some((entry) => entry.isDirectory)) return this.add(filesOfInput(files));
    if (!this.isBusy) this.panel.search(0);
    const found = await filesOf(entries, (so_far) => this.isBusy || this.panel.search(so_far));
    return this.add(found);
  }

  add(items) {
    if (this.isBusy) this.next.push(...items);
    else this.start(items);
  }

  async start(items) {
    const maxFiles = Number(this.form.dataset.maxFiles);
    const [good, bad] = sift(items.slice(0, maxFiles), Number(this.form.dataset.maxBytes));
    if (items.length > maxFiles) {
      const problem = `At most ${maxFiles} files at a time. Drop the rest when these are done.`;
      bad.push({ path: `${items.length - maxFiles} more files`, problem });
    }
    this.panel.open();
    const sender = new Sender(this.form, good, () => this.changed());
    this.sender = sender;
    sender.total += bad.length;
    sender.failed.push(...bad);
    this.changed();
    if (good.length) await sender.run();
    refreshDocuments();
    if (this.next.length && !sender.cancelled) this.start(this.next.splice(0));
  }

  changed() {
    this.panel.show(this.sender);
    if (this.refresh) return;
    this.refresh = setTimeout(() => {
      this.refresh = 0;
      refreshDocuments();
    }, REFRESH_MS);
  }

  cancel() {
    this.next = [];
    this.sender.cancel();
    this.changed();
  }

  again() {
    const broken = this.sender.failed.filter((each) => each.again && each.file);
    this.start(broken.map(({ file, path }) => ({ file, path })));
  }
}

/** Apart what need not be sent to know that it will not be taken. */
function sift(items, maxBytes) {
  const good = [];
  const bad = [];
  for (const item of items) {
    const problem = item.problem ?? problemBeforeSending(item.file, maxBytes);
    if (problem) bad.push({ ...item, problem });
    else good.push(item);
  }
  return [good, bad];
}

function problemBeforeSending(file, maxBytes) {
  if (file.size > maxBytes) {
    const limit = Math.floor(maxBytes / 1024 / 1024);
    return `Larger than ${limit} MB. Split the file or save it smaller.`;
  }
  return file.size === 0 ? "The file is empty." : "";
}

function refreshDocuments() {
  const list = document.getElementById("documents");
  if (list) window.htmx?.ajax("GET", list.dataset.list, { target: list, swap: "outerHTML" });
}

const form = document.getElementById("upload");
if (form) watch(form);
