// The sources panel: a column on wide screens, a sheet from the bottom on phones.

import { gettext } from "../i18n.js";

export class Sources {
  constructor(panel) {
    this.panel = panel;
    this.list = panel.querySelector("[data-source-list]");
    this.detail = panel.querySelector("[data-source-detail]");
    this.back = panel.querySelector("[data-source-back]");
    this.title = panel.querySelector("h2");
    this.backdrop = document.querySelector("[data-sources-backdrop]");
    this.opener = null;
    panel.querySelector("[data-sources-close]").addEventListener("click", () => this.close());
    this.back.addEventListener("click", () => this.showList());
    this.backdrop.addEventListener("click", () => this.close());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.isOpen && !event.defaultPrevented) this.close();
    });
  }

  get isOpen() {
    return this.panel.dataset.open === "true";
  }

  /** Lists what an answer was given; `items` are copies of its source elements. */
  setItems(items) {
    this.list.replaceChildren(...items);
    this.panel.querySelector("[data-no-sources]").hidden = items.length > 0;
  }

  showAnswer(answer, opener) {
    this.fillFrom(answer);
    this.showList();
    this.open(opener);
  }

  fillFrom(answer) {
    const items = [...answer.querySelectorAll(".answer-sources > .source")];
    this.setItems(items.map((item) => item.cloneNode(true)));
  }

  showList() {
    this.list.hidden = false;
    this.detail.hidden = true;
    this.back.hidden = true;
    this.title.textContent = gettext("Sources");
    this.detail.replaceChildren();
    this.select(null);
  }

  /** Opens one citation; the server says where it is and marks the passage. */
  async showCitation(link, answer) {
    if (answer) this.fillFrom(answer);
    this.list.hidden = true;
    this.panel.querySelector("[data-no-sources]").hidden = true;
    this.detail.hidden = false;
    this.back.hidden = false;
    this.title.textContent = gettext("Source");
    this.select(link.dataset.citation);
    this.detail.replaceChildren(note(gettext("Opening the passage…")));
    this.open(link);
    try {
      const response = await fetch(link.href, {
        headers: { "HX-Request": "true" },
        redirect: "error", // a redirect leads to the sign-in page
      });
      if (!response.ok) throw new Error(String(response.status));
      // Our own template's HTML; text of documents in it was escaped by the server.
      this.detail.innerHTML = await response.text();
      window.htmx?.process(this.detail);
      this.scrollToMark();
    } catch {
      const words = gettext("This source could not be opened. Try again in a moment.");
      this.detail.replaceChildren(note(words));
    }
  }

  scrollToMark() {
    const scroll = () => {
      const mark = this.detail.querySelector("mark, .passage-box");
      mark?.scrollIntoView({ block: "center", behavior: "instant" });
    };
    const image = this.detail.querySelector("img");
    if (image && !image.complete) image.addEventListener("load", scroll, { once: true });
    else scroll();
  }

  select(citation) {
    for (const link of document.querySelectorAll("[data-citation]")) {
      if (citation && link.dataset.citation === citation) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  open(opener) {
    if (opener && !this.panel.contains(opener)) this.opener = opener;
    this.panel.dataset.open = "true";
    this.backdrop.dataset.open = "true";
    this.title.focus({ preventScroll: true });
  }

  close() {
    this.panel.dataset.open = "false";
    this.backdrop.dataset.open = "false";
    this.select(null);
    this.opener?.focus({ preventScroll: true });
    this.opener = null;
  }
}

function note(text) {
  const paragraph = document.createElement("p");
  paragraph.className = "muted";
  paragraph.textContent = text;
  return paragraph;
}
