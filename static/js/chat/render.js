// What an answer's last, unfinished block looks like while it is written. Made of elements and
// text alone, never of HTML: what a model writes cannot become more than that. The server's own
// rendering replaces it as soon as the block is finished, so this knows the common forms only.

import { inline } from "./inline.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^( *)([-+*]|\d{1,9}[.)])(?: +|$)(.*)$/;
const QUOTE = /^ {0,3}> ?/;
const DELIMITER_ROW = /^ {0,3}\|?[\s:|-]*$/;
const FORMULA = /^ {0,3}(\$\$|\\\[)/;
const DEEPEST = 6; // quotes and lists within each other

/** Elements for Markdown that may stop anywhere; `sources` maps a marker to its source. */
export function renderMarkdown(text, sources) {
  const fragment = document.createDocumentFragment();
  blocks(fragment, text.split("\n"), sources, 0);
  return fragment;
}

function blocks(parent, lines, sources, depth) {
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) at += 1;
    else if (FENCE.test(line)) at = code(parent, lines, at);
    else if (FORMULA.test(line)) at = formula(parent, lines, at);
    else if (HEADING.test(line)) at = heading(parent, lines, at, sources);
    else if (RULE.test(line)) at = add(parent, "hr") && at + 1;
    else if (depth < DEEPEST && QUOTE.test(line)) at = quote(parent, lines, at, sources, depth);
    else if (depth < DEEPEST && ITEM.test(line)) at = list(parent, lines, at, sources, depth);
    else if (/^ {0,3}\|/.test(line)) at = table(parent, lines, at, sources);
    else at = paragraph(parent, lines, at, sources);
  }
}

function add(parent, tag, className) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  parent.append(element);
  return element;
}

function code(parent, lines, at) {
  const [, fence, language] = lines[at].match(FENCE);
  const closes = (line) => {
    const found = line.match(/^ {0,3}(`{3,}|~{3,})\s*$/)?.[1];
    return found?.[0] === fence[0] && found.length >= fence.length;
  };
  let end = at + 1;
  while (end < lines.length && !closes(lines[end])) end += 1;
  const box = add(parent, "div", "code");
  const head = add(box, "div", "code-head");
  add(head, "span", "code-language").textContent = language.trim().split(/\s/)[0].slice(0, 20);
  // The closing fence that is still being written is no line of the code.
  const body = lines.slice(at + 1, end).join("\n").replace(/\n?[`~]{1,2}$/, "");
  add(add(box, "pre"), "code").textContent = body ? `${body}\n` : "\n";
  return end + 1;
}

/** A formula's source, quietly: it becomes a formula when it is whole. */
function formula(parent, lines, at) {
  const closing = lines[at].trim().startsWith("$$") ? "$$" : "\\]";
  const rest = (line, first) => (first ? line.trim().slice(2) : line);
  let end = at;
  while (end < lines.length && lines[end].trim()) {
    end += 1;
    if (rest(lines[end - 1], end - 1 === at).includes(closing)) break;
  }
  const source = lines.slice(at, end).join("\n").replaceAll(/\$\$|\\[[\]]/g, "").trim();
  add(parent, "p", "formula-source").textContent = source;
  return end;
}

function heading(parent, lines, at, sources) {
  const [, signs, text] = lines[at].match(HEADING);
  inline(add(parent, `h${signs.length}`), text, sources);
  return at + 1;
}

function quote(parent, lines, at, sources, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  blocks(add(parent, "blockquote"), inner, sources, depth + 1);
  return end;
}

function list(parent, lines, at, sources, depth) {
  const marker = lines[at].match(ITEM)[2];
  const numbered = /\d/.test(marker);
  const element = add(parent, numbered ? "ol" : "ul");
  if (numbered && Number.parseInt(marker, 10) !== 1) element.start = Number.parseInt(marker, 10);
  const items = [];
  let loose = false;
  while (at < lines.length) {
    const found = lines[at].match(ITEM);
    if (found && found[1].length < 2 && /\d/.test(found[2]) === numbered) {
      items.push([found[3]]);
    } else if (!lines[at].trim()) {
      if (!goesOn(lines[at + 1], numbered)) break;
      items.at(-1).push("");
      loose = true;
    } else if (/^ {2,}/.test(lines[at])) {
      items.at(-1).push(lines[at].replace(numbered ? /^ {2,4}/ : /^ {2}/, ""));
    } else if (ends(lines[at])) break;
    else items.at(-1).push(lines[at]); // a line that goes on with the item's paragraph
    at += 1;
  }
  for (const item of items) fillItem(add(element, "li"), item, loose, sources, depth);
  return at;
}

function goesOn(line, numbered) {
  if (line === undefined) return false;
  const found = line.match(ITEM);
  return /^ {2,}\S/.test(line) || (found && /\d/.test(found[2]) === numbered);
}

function ends(line) {
  return [FENCE, HEADING, QUOTE, RULE, ITEM].some((sign) => sign.test(line));
}

function fillItem(item, lines, loose, sources, depth) {
  lines[0] = lines[0].replace(/^\[([ xX])\] /, (whole, tick) => (tick === " " ? "☐ " : "☑ "));
  blocks(item, lines, sources, depth + 1);
  const first = item.firstElementChild;
  if (!loose && first?.tagName === "P") first.replaceWith(...first.childNodes);
}

function table(parent, lines, at, sources) {
  const element = add(add(parent, "div", "table-box"), "table");
  row(add(add(element, "thead"), "tr"), lines[at], "th", sources);
  at += 1;
  if (at < lines.length && DELIMITER_ROW.test(lines[at])) at += 1;
  const body = document.createElement("tbody");
  for (; at < lines.length && lines[at].includes("|"); at += 1) {
    row(add(body, "tr"), lines[at], "td", sources);
  }
  if (body.firstChild) element.append(body);
  return at;
}

function row(element, line, tag, sources) {
  const cells = line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/);
  for (const cell of cells) inline(add(element, tag), cell.trim().replaceAll("\\|", "|"), sources);
}

function paragraph(parent, lines, at, sources) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !interrupts(lines[end])) end += 1;
  inline(add(parent, "p"), lines.slice(at, end).join("\n"), sources);
  return end;
}

function interrupts(line) {
  // Of numbered lists only one that begins with 1: a year at the start of a line is none.
  if (/^ {0,3}(?:[-+*]|1[.)]) +\S/.test(line)) return true;
  return [FENCE, HEADING, QUOTE, RULE, FORMULA].some((sign) => sign.test(line));
}
