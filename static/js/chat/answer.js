// One answer on the page: from the first hop to the server's final HTML.

import { renderMarkdown, sanitise } from "./render.js";

const ANY_ID = "00000000-0000-0000-0000-000000000000"; // stands in addresses of templates
// What is said while nothing has been written yet.
const AT_WORK = {
  cache: "Searching…",
  rewrite: "Reading your question…",
  embed: "Searching…",
  search: "Searching…",
  rerank: "Choosing passages…",
};
const ENDED = {
  stopped: "You stopped this answer.",
  interrupted: "The answer broke off. What was written is kept.",
  failed: "The answer failed.",
};
// The same words are in `templates/chat/_answer.html`, for answers of before.
const CACHED = {
  hit: "Given before, to the same question. Regenerate asks anew.",
  semantic: "Given before, to a question that means the same. Regenerate asks anew.",
  shared: "Written once for this question, which was asked twice at the same time.",
};

export class Answer {
  /** `citationUrl(id)` is the address of a citation. */
  constructor(element, citationUrl) {
    this.element = element;
    this.citationUrl = citationUrl;
    this.body = element.querySelector(".answer-body");
    this.statusText = element.querySelector(".answer-status-text");
    this.sources = new Map();
    this.text = "";
    this.sequence = -1;
    this.painting = false;
    this.setState("waiting", "Sending…");
  }

  get id() {
    return this.element.dataset.answer;
  }

  setState(state, words) {
    this.element.dataset.state = state;
    this.statusText.textContent = words ?? "";
  }

  /** Takes a frame; a frame seen before is ignored. Answers whether it was new. */
  receive(frame) {
    if (frame.seq <= this.sequence) return false;
    this.sequence = frame.seq;
    const handlers = {
      "answer.started": () => this.started(frame),
      "answer.hop": () => this.hop(frame),
      "answer.rewritten": () => this.rewritten(frame.searched_as),
      "answer.sources": () => this.setSources(frame.sources),
      "answer.notice": () => this.notice(frame.message),
      "answer.tokens": () => this.tokens(frame.text),
      "answer.finished": () => this.finished(frame),
    };
    handlers[frame.type]?.();
    return true;
  }

  started(frame) {
    this.element.dataset.answer = frame.answer;
    this.setState("waiting", "Searching…");
  }

  hop(frame) {
    if (this.text || frame.state !== "started") return;
    const words = AT_WORK[frame.hop];
    if (words) this.setState("waiting", words);
  }

  rewritten(question) {
    const line = this.element.querySelector(".answer-searched");
    line.querySelector("q").textContent = question;
    line.hidden = false;
  }

  setSources(sources) {
    const template = document.getElementById("source-template").content.firstElementChild;
    const items = sources.map((source) => {
      const url = this.citationUrl(source.citation);
      this.sources.set(source.marker, { ...source, url });
      return fillSource(template.cloneNode(true), source, url);
    });
    this.element.querySelector(".answer-sources").replaceChildren(...items);
    // How many of them the model is given is decided after this.
    if (sources.length && !this.text) this.setState("waiting", "Reading the best passages…");
  }

  notice(message) {
    const paragraph = document.createElement("p");
    paragraph.className = "notice warning";
    paragraph.textContent = message;
    this.element.querySelector(".answer-notices").append(paragraph);
  }

  tokens(text) {
    this.text += text;
    this.setState("streaming", "Writing…");
    if (this.painting) return;
    this.painting = true;
    requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.painting = false;
    if (this.element.dataset.state !== "streaming") return;
    this.body.replaceChildren(renderMarkdown(this.text, this.sources));
    this.onPaint?.();
  }

  finished(frame) {
    this.body.innerHTML = sanitise(frame.html);
    this.element.dataset.kind = frame.kind ?? "";
    const cited = new Set(frame.cited);
    for (const item of this.element.querySelectorAll(".source")) {
      item.toggleAttribute("data-cited", cited.has(Number(item.dataset.marker)));
    }
    this.cached(frame.cache);
    this.end(frame.state, frame.error?.message ?? ENDED[frame.state]);
    this.allowFeedback();
    if (frame.hops) this.allowDetails();
  }

  /** Says where the answer is from, if it was not written for this question. */
  cached(how) {
    const line = this.element.querySelector(".answer-cache");
    line.textContent = CACHED[how] ?? "";
    line.hidden = !line.textContent;
  }

  /** The form came out of a template: its addresses and labels stand for no answer yet. */
  allowFeedback() {
    const form = this.element.querySelector(".feedback");
    for (const part of [this.element, form, ...form.querySelectorAll("*")]) {
      for (const { name, value } of [...part.attributes]) {
        if (value.includes(ANY_ID)) part.setAttribute(name, value.replaceAll(ANY_ID, this.id));
      }
    }
    form.hidden = false;
    window.htmx?.process(form);
  }

  /** Ends the answer, with words about how where it did not simply end. */
  end(state, words) {
    this.setState(state);
    const line = this.element.querySelector(".answer-end");
    line.hidden = !words;
    line.querySelector("span").textContent = words ?? "";
    line.classList.toggle("error", state === "failed");
  }

  allowDetails() {
    const details = this.element.querySelector(".answer-details");
    if (!details) return;
    details.hidden = false;
    details.setAttribute(
      "hx-get",
      details.dataset.url.replace(ANY_ID, this.id),
    );
    window.htmx?.process(details);
  }

  /** What a screen reader is told once, at the end. */
  spoken() {
    const line = this.element.querySelector(".answer-end");
    return [this.body.textContent.trim(), line.hidden ? "" : line.textContent.trim()].join(" ");
  }
}

function fillSource(item, source, url) {
  item.dataset.marker = source.marker;
  const link = item.querySelector("a");
  link.href = url;
  link.dataset.citation = source.citation;
  item.querySelector(".source-marker").textContent = source.marker;
  item.querySelector(".source-name").textContent = source.document_name;
  item.querySelector(".source-place").textContent = placeOf(source);
  item.querySelector(".source-heading").textContent = source.heading;
  item.querySelector(".source-snippet").textContent = source.snippet;
  const meter = item.querySelector("meter");
  meter.value = source.relevance;
  meter.title = `Relevance ${Math.round(source.relevance * 100)} of 100`;
  return item;
}

function placeOf({ page_first: first, page_last: last }) {
  return first === last ? `page ${first}` : `pages ${first} to ${last}`;
}
