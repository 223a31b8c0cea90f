// A document's page: what a checkbox remembers, forms that say they are busy, and a question tried.

for (const box of document.querySelectorAll("input[data-remember]")) {
  box.checked = sessionStorage.getItem(box.dataset.remember) === "1" && !box.disabled;
  box.addEventListener("change", () => {
    sessionStorage.setItem(box.dataset.remember, box.checked ? "1" : "0");
  });
}

// Opening a file with its password takes seconds: say so, and take one press only.
document.addEventListener("submit", (event) => {
  const button = event.target.dataset.busy && event.target.querySelector("button[type=submit]");
  if (!button) return;
  button.disabled = true;
  button.textContent = event.target.dataset.busy;
});
addEventListener("pageshow", (event) => event.persisted && location.reload()); // pressed, then "back"

// The site down, or its database: htmx leaves the page as it is, which would look like no answer.
for (const kind of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(kind, (event) => {
    if (event.target.id !== "try") return;
    const found = document.getElementById("try-found");
    const note = document.createElement("p");
    note.className = "notice error";
    note.textContent = "The search could not be done just now. Try again in a moment.";
    found.replaceChildren(note);
  });
}

// Time left, from how far the stage has come while this page was open.
const STAGE_MS = 4000; // less says nothing
let first = null; // of { stage, done, at }

function watchState() {
  const state = document.getElementById("document-state");
  if (!state) return;
  const { stage } = state.dataset;
  const done = Number(state.dataset.done);
  const total = Number(state.dataset.total);
  const at = performance.now();
  if (first?.stage !== stage || done < first.done) first = { stage, done, at };
  const elapsed = at - first.at;
  if (elapsed < STAGE_MS || done <= first.done) return;
  const seconds = ((elapsed / (done - first.done)) * (total - done)) / 1000;
  state.querySelector("[data-time-left]").textContent = words(stage, seconds);
}

function words(stage, seconds) {
  const what = stage === "parsing" ? "Reading" : "Indexing";
  if (seconds < 60) return `${what} takes less than a minute more.`;
  const minutes = Math.round(seconds / 60);
  return `${what} takes about ${minutes} minute${minutes === 1 ? "" : "s"} more.`;
}

document.addEventListener("htmx:afterSettle", watchState);
watchState();
