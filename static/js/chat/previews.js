// What hover and focus tell: the passage behind a citation's number, and why a sentence is doubted.

import { gettext } from "../i18n.js";
import { fetchPart } from "./ids.js";
import { Popover } from "./popover.js";

const previews = new Map(); // address → fetched element, for as long as the page lives

/** The passage behind a number. */
export function showPreviews() {
  const citations = new Popover("a.cite", (mark, box) => {
    box.className = "popover-box preview-box";
    fillPreview(mark, box, citations);
  });
}

/** Why a sentence is doubted. */
export function showDoubts() {
  new Popover("button.why", (button, box) => {
    box.textContent = button.getAttribute("aria-label");
  });
  // A press says it too: where there is no hover.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.why");
    if (button) showReason(button);
  });
}

async function fillPreview(mark, box, popover) {
  const url = new URL("preview/", mark.href).href;
  if (!previews.has(url)) {
    box.textContent = gettext("Fetching the passage…");
    const part = await fetchPart(url);
    if (part) previews.set(url, part);
  }
  if (popover.anchor !== mark && popover.anchor) return;
  const part = previews.get(url);
  if (part) box.replaceChildren(part.cloneNode(true));
  else box.textContent = gettext("This passage can't be shown now. Press to open it.");
  popover.place();
}

/** The reason as a line behind the sentence; a second press takes it away. */
function showReason(button) {
  const shown = button.nextElementSibling;
  if (shown?.matches(".why-words")) {
    shown.remove();
    return;
  }
  const words = document.createElement("span");
  words.className = "why-words";
  words.textContent = ` ${button.getAttribute("aria-label")} `;
  button.after(words);
}
