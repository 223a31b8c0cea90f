// Markdown to safe HTML while an answer streams. The server's own HTML replaces it at the end.

import { Marked } from "../../vendor/marked.esm.js";
import DOMPurify from "../../vendor/purify.es.js";

const ALLOWED = {
  ALLOWED_TAGS: [
    ..."p br hr strong em s del code pre blockquote ul ol li a span".split(" "),
    ..."h1 h2 h3 h4 h5 h6 table thead tbody tr th td".split(" "),
  ],
  ALLOWED_ATTR: ["href", "title", "class", "data-citation", "start"],
  // Every other value has to pass for an address, as the next line has it.
  ADD_URI_SAFE_ATTR: ["data-citation", "start"],
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|\/(?!\/))/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};
const OWN_CLASSES = new Set(["cite", "unsupported"]);

const escapeHtml = (text) =>
  text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

const marked = new Marked({
  gfm: true,
  breaks: false,
  // HTML in an answer comes from a model that read hostile text: show it, don't run it.
  renderer: {
    html: ({ text }) => escapeHtml(text),
    image: ({ text }) => escapeHtml(text),
  },
});

const purify = DOMPurify(window);
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.hasAttribute("class")) {
    const kept = [...node.classList].filter((name) => OWN_CLASSES.has(name));
    if (kept.length) node.className = kept.join(" ");
    else node.removeAttribute("class");
  }
  if (node.tagName === "A" && !node.hasAttribute("data-citation")) {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
});

/** Safe HTML of Markdown that may stop anywhere; `sources` maps a marker to its source. */
export function renderMarkdown(text, sources) {
  const template = document.createElement("template");
  template.innerHTML = sanitise(marked.parse(closeFences(text)));
  linkMarkers(template.content, sources);
  return template.content;
}

/** HTML that came rendered from the server, sanitised once more. */
export function sanitise(html) {
  return purify.sanitize(html, ALLOWED);
}

// A code block that is still being written would swallow the rest of the page's styling.
function closeFences(text) {
  let open = "";
  for (const line of text.split("\n")) {
    const fence = line.match(/^ {0,3}(`{3,}|~{3,})/)?.[1];
    if (!fence) continue;
    if (!open) open = fence;
    else if (fence[0] === open[0] && fence.length >= open.length) open = "";
  }
  return open ? `${text}\n${open}` : text;
}

// "[2]" becomes a chip where passage 2 was given; code is left alone.
function linkMarkers(root, sources) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  for (const node of texts) {
    if (!node.data.includes("[") || node.parentElement?.closest("code, a")) continue;
    const pieces = node.data.split(/\[(\d{1,2})\]/);
    if (pieces.length === 1) continue;
    node.replaceWith(...pieces.flatMap((piece, at) => (at % 2 ? chip(piece, sources) : piece)));
  }
}

function chip(marker, sources) {
  const source = sources.get(Number(marker));
  if (!source) return `[${marker}]`;
  const link = document.createElement("a");
  link.className = "cite";
  link.dataset.citation = source.citation;
  link.href = source.url;
  link.textContent = marker;
  return link;
}
