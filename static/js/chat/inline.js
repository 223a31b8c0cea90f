// What stands in a line of an answer that is still being written: emphasis, code, links, marks.

const SIGNS = [
  "`([^`]+)(?:`|$)",
  "\\*\\*(\\S[^*]*(?:\\*[^*]+)*?)(?:\\*\\*|$)",
  "~~(\\S[^~]*)(?:~~|$)",
  "\\*(\\S[^*]*)\\*",
  "\\[(\\d{1,3})\\]",
  "\\[([^\\]\\n]*)\\]\\(([^)\\s]*)(?:\\)|$)",
  "\\\\([!-'*-/:-@^-`{-~])",
];
const INLINE = new RegExp(SIGNS.join("|"), "g");
// Signs that have just been begun would show for a moment and vanish.
const BEGUN = /(?:\*{1,2}|~{1,2}|`|!?\[[^\]\n]{0,200}|!?\[[^\]\n]*\]\([^)\s]*)$/;
const DEEPEST = 4;

/** Puts `text` into `parent`; `sources` maps a marker to its source. */
export function inline(parent, text, sources, depth = 0) {
  const shown = depth ? text : text.replace(BEGUN, quiet);
  let at = 0;
  for (const found of shown.matchAll(INLINE)) {
    parent.append(shown.slice(at, found.index));
    at = found.index + found[0].length;
    parent.append(part(found, sources, depth));
  }
  parent.append(shown.slice(at));
}

/** The words of a link whose address is being written, without its signs. */
function quiet(begun) {
  const words = begun.match(/^!?\[([^\]\n]*)/)?.[1] ?? "";
  return /^\d*$/.test(words) ? "" : words;
}

function part([whole, code, strong, struck, emphasis, marker, words, address, escaped], sources, depth) {
  if (code !== undefined) return element("code", code);
  if (marker !== undefined) return mark(marker, sources);
  if (escaped !== undefined) return escaped;
  if (words !== undefined) return link(words, address);
  const [tag, inner] = strong ? ["strong", strong] : struck ? ["s", struck] : ["em", emphasis];
  if (depth >= DEEPEST) return whole;
  const made = document.createElement(tag);
  inline(made, inner, sources, depth + 1);
  return made;
}

function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function link(words, address) {
  if (!/^https?:\/\//i.test(address)) return words;
  const made = element("a", words);
  made.href = address;
  made.rel = "noopener noreferrer nofollow";
  return made;
}

/** A mark where there is such a passage; other numbers that the model wrote leave no hole. */
function mark(marker, sources) {
  const source = sources.get(Number(marker));
  if (!source) return "";
  const made = element("a", marker);
  made.className = "cite";
  made.dataset.citation = source.citation;
  made.href = source.url;
  return made;
}
