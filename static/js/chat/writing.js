// The text of an answer while it is written: finished blocks are put in once and stay as they are;
// only what follows them is painted anew.

import { renderMarkdown } from "./render.js";

export class Writing {
  /** `sources` maps a marker to its source. */
  constructor(body, sources) {
    this.body = body;
    this.sources = sources;
    this.begun = false;
    this.tail = ""; // of the Markdown: what no finished block holds yet
    this.end = 0; // in characters of the whole: where the tail begins
    this.place = null; // of the tail, behind the finished blocks
    this.painting = 0;
  }

  add(text) {
    this.begun = true;
    this.tail += text;
    this.painting ||= requestAnimationFrame(() => this.paint());
  }

  /** The text up to `end` has a block more that will not change; `html` is our server's own. */
  finishBlock(end, html) {
    this.begun = true;
    this.tail = this.tail.slice(unitsOf(this.tail, end - this.end));
    this.end = end;
    this.makePlace();
    this.place.before(parse(html));
    this.paint();
  }

  paint() {
    cancelAnimationFrame(this.painting);
    this.painting = 0;
    this.makePlace();
    this.place.replaceChildren(renderMarkdown(this.tail, this.sources));
  }

  makePlace() {
    if (this.place) return;
    this.place = document.createElement("div");
    this.place.className = "tail";
    this.body.replaceChildren(this.place);
  }

  /** The whole answer as it is stored: blocks that are the same already are left alone. */
  finish(html) {
    cancelAnimationFrame(this.painting);
    this.painting = 0;
    this.tail = "";
    this.place?.remove();
    this.place = null;
    const fresh = [...parse(html).children];
    const shown = [...this.body.children];
    fresh.forEach((block, at) => {
      if (!shown[at]) this.body.append(block);
      else if (!shown[at].isEqualNode(block)) shown[at].replaceWith(block);
    });
    for (const block of shown.slice(fresh.length)) block.remove();
  }
}

function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** Characters as the server counts them, in the units that strings are made of here. */
function unitsOf(text, characters) {
  let units = 0;
  for (let left = characters; left > 0 && units < text.length; left -= 1) {
    units += text.codePointAt(units) > 0xffff ? 2 : 1;
  }
  return units;
}
