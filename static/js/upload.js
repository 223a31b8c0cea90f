// Uploads: one request per file, so that one bad file does not sink the others.

const AT_ONCE = 3; // requests in flight; more only share the same line

const form = document.getElementById("upload");
if (form) watch(form);

function watch(form) {
  const input = form.querySelector("input[type=file]");
  const uploads = makeQueue(form);
  input.addEventListener("change", () => {
    uploads.add([...input.files]);
    input.value = ""; // the same file may be chosen again
  });
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
    uploads.add([...event.dataTransfer.files]);
  });
  addEventListener("beforeunload", (event) => {
    if (uploads.busy()) event.preventDefault();
  });
}

function makeQueue(form) {
  const waiting = [];
  let running = 0;
  const maxFiles = Number(form.dataset.maxFiles);

  const next = () => {
    while (running < AT_ONCE && waiting.length) {
      running += 1;
      send(form, waiting.shift(), () => {
        running -= 1;
        refreshDocuments();
        if (!running && !waiting.length) announce();
        next();
      });
    }
  };

  const add = (files) => {
    if (!files.length) return;
    files.slice(0, maxFiles).forEach((file) => {
      const upload = makeRow(file);
      upload.cancel = () => {
        const at = waiting.indexOf(upload);
        if (at >= 0) waiting.splice(at, 1);
        upload.request?.abort();
        upload.row.remove();
      };
      const problem = problemBeforeSending(file, Number(form.dataset.maxBytes));
      if (problem) fail(upload, problem);
      else waiting.push(upload);
    });
    if (files.length > maxFiles) {
      fail(
        makeRow({ name: `${files.length - maxFiles} more files` }),
        `At most ${maxFiles} files at a time. Drop the rest when these are done.`,
      );
    }
    next();
  };

  return { add, busy: () => running > 0 || waiting.length > 0 };
}

function problemBeforeSending(file, maxBytes) {
  if (file.size > maxBytes) {
    const limit = Math.floor(maxBytes / 1024 / 1024);
    return `Larger than ${limit} MB. Split the file or save it smaller.`;
  }
  if (file.size === 0) return "The file is empty.";
  return "";
}

function makeRow(file) {
  const list = document.getElementById("uploads");
  const row = document.getElementById("upload-row").content.firstElementChild.cloneNode(true);
  row.querySelector(".upload-name").textContent = file.name;
  row.querySelector("progress").setAttribute("aria-label", `Upload of ${file.name}`);
  const upload = { file, row, request: null, cancel: () => row.remove() };
  row.querySelector("button").addEventListener("click", () => {
    upload.cancel();
    list.hidden = !list.children.length;
  });
  list.append(row);
  list.hidden = false;
  return upload;
}

function say(upload, state, text) {
  upload.row.dataset.state = state;
  upload.row.querySelector(".upload-state").textContent = text;
}

const fail = (upload, text) => say(upload, "failed", text);

function send(form, upload, done) {
  const request = new XMLHttpRequest();
  const bar = upload.row.querySelector("progress");
  upload.request = request;
  request.open("POST", form.action);
  request.setRequestHeader("X-CSRFToken", form.elements.csrfmiddlewaretoken.value);
  request.setRequestHeader("Accept", "application/json");
  request.responseType = "json";
  request.upload.addEventListener("progress", (event) => {
    bar.value = event.total ? event.loaded / event.total : 0;
    say(upload, "sending", event.loaded < event.total ? "Uploading…" : "Saving…");
  });
  request.addEventListener("load", () => finish(upload, request));
  request.addEventListener("error", () =>
    fail(upload, "The connection broke. Nothing was saved: drop the file again."),
  );
  request.addEventListener("loadend", done);
  const body = new FormData();
  body.append("file", upload.file, upload.file.name);
  say(upload, "sending", "Uploading…");
  request.send(body);
}

function finish(upload, request) {
  const answer = request.response;
  if (request.status === 201) {
    say(upload, "done", "Received");
    setTimeout(() => {
      upload.row.remove();
      const list = document.getElementById("uploads");
      list.hidden = !list.children.length;
    }, 2500);
  } else if (answer?.error) {
    fail(upload, answer.error.message);
  } else if (request.responseURL !== new URL(form.action, location).href) {
    fail(upload, "You are signed out. Reload the page and sign in.");
  } else if (request.status === 413) {
    fail(upload, "Larger than the site accepts.");
  } else {
    fail(upload, "The site could not take this file. Try again in a moment.");
  }
}

let refresh = 0;
function refreshDocuments() {
  clearTimeout(refresh);
  refresh = setTimeout(() => {
    const list = document.getElementById("documents");
    if (list) window.htmx?.ajax("GET", list.dataset.list, { target: list, swap: "outerHTML" });
  }, 120);
}

function announce() {
  const failed = document.querySelectorAll('.upload[data-state="failed"]').length;
  document.getElementById("upload-status").textContent = failed
    ? `Uploads finished, ${failed} not taken.`
    : "All files received.";
}
