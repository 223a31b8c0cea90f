// Copying an answer, with its sources or without, and copying code.

import { gettext } from "../i18n.js";

const SAID_FOR_MS = 1800;

/** `say(words)` tells a screen reader. */
export function allowCopying(say) {
  document.addEventListener("click", async (event) => {
    const code = event.target.closest(".code-copy");
    const whole = event.target.closest("[data-copy]");
    const button = code ?? whole;
    if (!button) return;
    const copied = code ? await copyCode(code) : await copyAnswer(whole);
    say(copied ? gettext("Copied") : gettext("The browser did not allow it. Select the text."));
    if (copied) flash(button);
  });
}

function copyCode(button) {
  const text = button.closest(".code").querySelector("code").textContent.replace(/\n$/, "");
  return written(() => navigator.clipboard.writeText(text));
}

/** The server writes the text: as Markdown, and as rich text for who can take that. */
function copyAnswer(button) {
  const answer = button.closest(".answer");
  button.closest("details")?.removeAttribute("open");
  const url = new URL(answer.dataset.copyUrl, location.href);
  url.searchParams.set("citations", button.dataset.copy === "plain" ? "no" : "yes");
  const fetched = fetch(url, { redirect: "error" }).then((response) => {
    if (!response.ok) throw new Error(String(response.status));
    return response.json();
  });
  fetched.catch(() => {}); // told below, by whoever waits for it
  const blob = (type, key) =>
    fetched.then((copy) => new Blob([copy[key]], { type }));
  return written(() => {
    if (!window.ClipboardItem) {
      return fetched.then((copy) => navigator.clipboard.writeText(copy.markdown));
    }
    // Promises, because what a person pressed is forgotten while one waits for the server.
    const item = { "text/plain": blob("text/plain", "markdown"), "text/html": blob("text/html", "html") };
    return navigator.clipboard.write([new ClipboardItem(item)]);
  });
}

async function written(write) {
  try {
    await write();
    return true;
  } catch {
    return false;
  }
}

function flash(button) {
  const label = button.querySelector("span") ?? button;
  if (label.dataset.before) return;
  label.dataset.before = label.textContent;
  label.textContent = gettext("Copied");
  setTimeout(() => {
    label.textContent = label.dataset.before;
    delete label.dataset.before;
  }, SAID_FOR_MS);
}
