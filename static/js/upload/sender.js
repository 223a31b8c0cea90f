// Sends a batch: a few requests at a time, small files many to a request.
//
// A request that breaks is tried again: the site stores a file whole or not at all, and recognises
// one that it has, so nothing is lost or doubled by it.

const AT_ONCE = 3; // requests in flight; more only share the same line
// Files of 2 kB on two busy cores: 12 a second one to a request, 20 with ten or more.
const BUNDLE_FILES = 40;
const BUNDLE_BYTES = 1024 * 1024;
const TRIES = 4;
const PAUSE_MS = 1000; // before the second try; doubled for each further one

/** One upload: `items` are { file, path }; `report` is called after every change of its figures. */
export class Sender {
  constructor(form, items, report) {
    this.form = form;
    this.report = report;
    this.waiting = items;
    this.running = new Set(); // of { items, share, request }
    this.failed = []; // of { file, path, problem, again }
    this.total = items.length; // with those that were not worth sending, once it is told of them
    this.expected = items.length;
    this.bytes = sizeOf(items);
    this.doneBytes = 0;
    this.counts = { received: 0, replaced: 0, unchanged: 0 };
    this.cancelled = false;
    this.since = performance.now();
  }

  get isBusy() {
    return !this.cancelled && (this.waiting.length > 0 || this.running.size > 0);
  }

  get sentBytes() {
    // Sending is half of it: the other half is the site storing what came.
    const running = [...this.running].map((each) => (each.share * sizeOf(each.items)) / 2);
    return this.doneBytes + running.reduce((sum, bytes) => sum + bytes, 0);
  }

  async run() {
    try {
      this.address = await this.openBatch();
    } catch (problem) {
      this.failAll(this.waiting.splice(0), problem.message, true);
      return this.report();
    }
    await Promise.all(Array.from({ length: AT_ONCE }, () => this.work()));
    return this.report();
  }

  cancel() {
    this.cancelled = true;
    this.waiting = [];
    for (const each of this.running) each.request?.abort();
  }

  async openBatch() {
    const body = new FormData();
    body.append("expected", this.expected);
    const { status, answer } = await this.persist(this.form.action, body);
    if (status !== 201) throw new Error(problemOf(status, answer));
    return `${this.form.action}${answer.batch.id}/`;
  }

  async work() {
    while (this.waiting.length && !this.cancelled) {
      const bundle = { items: this.nextBundle(), share: 0, request: null };
      this.running.add(bundle);
      this.report();
      await this.sendBundle(bundle);
      this.running.delete(bundle);
      this.doneBytes += sizeOf(bundle.items);
      this.report();
    }
  }

  nextBundle() {
    const items = [this.waiting.shift()];
    let bytes = items[0].file.size;
    while (this.waiting.length && !items[0].alone && items.length < BUNDLE_FILES) {
      bytes += this.waiting[0].file.size;
      if (bytes > BUNDLE_BYTES) break;
      items.push(this.waiting.shift());
    }
    return items;
  }

  async sendBundle(bundle) {
    const body = new FormData();
    for (const { file, path } of bundle.items) {
      body.append("file", file, file.name);
      body.append("path", path);
    }
    try {
      const { status, answer } = await this.persist(this.address, body, bundle);
      if (answer?.results) bundle.items.forEach((item, at) => this.take(item, answer.results[at]));
      else this.failAll(bundle.items, problemOf(status, answer), status >= 500);
    } catch (problem) {
      if (!this.cancelled) await this.giveUp(bundle, problem.message);
    }
  }

  /** One file that can't be read (moved, or on a drive that is gone) breaks its whole request. */
  async giveUp(bundle, problem) {
    if (!(await this.isSiteThere())) {
      this.failAll([...bundle.items, ...this.waiting.splice(0)], problem, true);
    } else if (bundle.items.length > 1) {
      this.waiting.unshift(...bundle.items.map((item) => ({ ...item, alone: true })));
      bundle.items = [];
    } else {
      this.failAll(bundle.items, "It could not be sent. Check that the file is still there.", true);
    }
  }

  async isSiteThere() {
    try {
      return (await fetch(location.href, { method: "HEAD" })).status < 500;
    } catch {
      return false;
    }
  }

  take(item, result) {
    if (result.error) this.failed.push({ ...item, problem: result.error.message });
    else if (result.unchanged) this.counts.unchanged += 1;
    else if (result.document.version > 1) this.counts.replaced += 1;
    else this.counts.received += 1;
  }

  failAll(items, problem, again) {
    this.failed.push(...items.map((item) => ({ ...item, problem, again })));
  }

  /** Sends until it is answered; rejects when the line stays broken or the upload was cancelled. */
  async persist(address, body, bundle = {}) {
    for (let tried = 1; ; tried += 1) {
      const outcome = await this.post(address, body, bundle);
      const isPassing = outcome.status === 0 || outcome.status >= 502;
      if (this.cancelled) throw new Error("Cancelled.");
      if (!isPassing) return outcome;
      if (tried === TRIES) {
        throw new Error(
          outcome.status
            ? "The site is not answering at the moment."
            : "The connection broke. Nothing of this file was saved.",
        );
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * 2 ** (tried - 1)));
    }
  }

  /** fetch does not tell how far an upload is; XMLHttpRequest does. */
  post(address, body, bundle) {
    return new Promise((resolve) => {
      const request = new XMLHttpRequest();
      bundle.request = request;
      bundle.share = 0;
      request.open("POST", address);
      request.setRequestHeader("X-CSRFToken", this.form.elements.csrfmiddlewaretoken.value);
      request.setRequestHeader("Accept", "application/json");
      request.responseType = "json";
      request.upload.addEventListener("progress", (event) => {
        bundle.share = event.total ? event.loaded / event.total : 0;
        this.report();
      });
      request.addEventListener("loadend", () => {
        const isElsewhere = request.responseURL !== new URL(address, location).href;
        const status = request.status && isElsewhere ? 401 : request.status;
        resolve({ status, answer: status === 401 ? null : request.response });
      });
      request.send(body);
    });
  }
}

function sizeOf(items) {
  return items.reduce((sum, { file }) => sum + (file?.size ?? 0), 0);
}

function problemOf(status, answer) {
  if (answer?.error) return answer.error.message;
  if (status === 401) return "You are signed out. Reload the page, sign in and drop it again.";
  if (status === 403) return "You may not add documents here any more, or the page is too old. Reload it.";
  if (status === 404) return "This collection is gone.";
  if (status === 413) return "Larger than the site accepts.";
  return "The site could not take this file.";
}
