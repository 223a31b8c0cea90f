// Shows an upload: its figures, what is being sent now, and what was not taken. Ten thousand files
// are a few numbers here, never ten thousand rows.

const FAILED_SHOWN = 50;
const FIRST_ESTIMATE_MS = 3000;
const number = new Intl.NumberFormat("en");

export class Panel {
  constructor(root) {
    this.root = root;
    this.part = (name) => root.querySelector(`[data-${name}]`);
    this.row = document.getElementById("upload-row").content.firstElementChild;
    this.status = document.getElementById("upload-status");
    this.rows = new Map(); // of what is being sent
    this.shownFailures = 0;
    this.frame = 0;
  }

  open() {
    this.root.hidden = false;
    this.part("failed").replaceChildren();
    this.part("running").replaceChildren();
    this.part("more").hidden = true;
    this.rows.clear();
    this.shownFailures = 0;
  }

  close() {
    this.root.hidden = true;
  }

  search(found) {
    this.open();
    this.root.dataset.state = "busy";
    this.part("title").textContent = "Looking through the folder…";
    this.part("figures").textContent = found ? `${number.format(found)} files so far` : "";
    this.part("left").textContent = "";
    this.part("bar").removeAttribute("value");
    this.buttons({ cancel: false, dismiss: false, again: false });
  }

  /** At most once a frame: progress events come by the hundred. */
  show(sender) {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw(sender);
    });
  }

  draw(sender) {
    const { received, replaced, unchanged } = sender.counts;
    const done = received + replaced + unchanged + sender.failed.length;
    const again = sender.failed.some((each) => each.again);
    this.part("title").textContent = title(sender, done);
    this.part("figures").textContent = [
      count(received, "received"),
      count(replaced, "new version", "new versions"),
      count(unchanged, "unchanged"),
      count(sender.failed.length, "not taken"),
    ]
      .filter(Boolean)
      .join(" · ");
    this.part("left").textContent = timeLeft(sender);
    this.part("bar").value = sender.bytes ? sender.sentBytes / sender.bytes : done / sender.total;
    this.root.dataset.state = state(sender);
    this.buttons({ cancel: sender.isBusy, dismiss: !sender.isBusy, again: !sender.isBusy && again });
    this.drawRunning(sender);
    this.drawFailed(sender.failed);
    if (!sender.isBusy) this.status.textContent = this.part("title").textContent;
  }

  buttons({ cancel, dismiss, again }) {
    this.part("cancel").hidden = !cancel;
    this.part("dismiss").hidden = !dismiss;
    this.part("again").hidden = !again;
  }

  drawRunning(sender) {
    for (const [bundle, row] of this.rows) {
      if (sender.running.has(bundle)) continue;
      row.remove();
      this.rows.delete(bundle);
    }
    for (const bundle of sender.isBusy ? sender.running : []) {
      const row = this.rows.get(bundle) ?? this.addRunning(bundle);
      row.querySelector("progress").value = bundle.share;
      const state = bundle.share < 1 ? `${Math.floor(bundle.share * 100)} %` : "Saving…";
      row.querySelector(".upload-state").textContent = state;
    }
  }

  addRunning(bundle) {
    const more = bundle.items.length - 1;
    const name = bundle.items[0].path + (more ? ` and ${count(more, "more")}` : "");
    const row = this.newRow(name);
    row.querySelector("progress").setAttribute("aria-label", `Upload of ${name}`);
    this.rows.set(bundle, row);
    this.part("running").append(row);
    return row;
  }

  drawFailed(failed) {
    for (const each of failed.slice(this.shownFailures, FAILED_SHOWN)) {
      const row = this.newRow(each.path);
      row.dataset.state = "failed";
      row.querySelector("progress").remove();
      row.querySelector(".upload-state").textContent = each.problem;
      this.part("failed").append(row);
    }
    this.shownFailures = failed.length;
    const more = failed.length - FAILED_SHOWN;
    this.part("more").hidden = more <= 0;
    this.part("more").textContent = `and ${number.format(Math.max(0, more))} more that were not taken`;
  }

  newRow(name) {
    const row = this.row.cloneNode(true);
    const label = row.querySelector(".upload-name");
    label.textContent = name;
    label.title = name;
    return row;
  }
}

function title(sender, done) {
  const total = count(sender.total, "file", "files");
  if (sender.cancelled) return `Cancelled after ${number.format(done)} of ${total}`;
  if (sender.isBusy) return `Sending ${number.format(done)} of ${total}`;
  if (!sender.failed.length) return sender.total === 1 ? "The file arrived" : `All ${total} arrived`;
  if (sender.failed.length === sender.total && sender.total === 1) return "The file was not taken";
  return `${number.format(sender.failed.length)} of ${total} not taken`;
}

function state(sender) {
  if (sender.isBusy) return "busy";
  return sender.failed.length || sender.cancelled ? "failed" : "done";
}

/** From what has been sent so far; nothing before there is a figure worth saying. */
function timeLeft(sender) {
  const elapsed = performance.now() - sender.since;
  const share = sender.bytes ? sender.sentBytes / sender.bytes : 0;
  if (!sender.isBusy) return "";
  if (elapsed < FIRST_ESTIMATE_MS || share < 0.01) return "Estimating…";
  const seconds = ((elapsed / share) * (1 - share)) / 1000;
  if (seconds < 10) return "almost done";
  if (seconds < 60) return "less than a minute left";
  return `about ${count(Math.round(seconds / 60), "minute", "minutes")} left`;
}

function count(n, one, many = one) {
  return n ? `${number.format(n)} ${n === 1 ? one : many}` : "";
}
