// One answer on the page: from the first hop to the server's final HTML.

import { fill, gettext } from "../i18n.js";
import { ANY_ID } from "./ids.js";
import { spokenText } from "./plain.js";
import { Writing } from "./writing.js";

// What is said while nothing has been written yet.
const AT_WORK = {
  cache: () => gettext("Searching…"),
  rewrite: () => gettext("Reading your question…"),
  embed: () => gettext("Searching…"),
  search: () => gettext("Searching…"),
  rerank: () => gettext("Choosing passages…"),
};
const ENDED = {
  stopped: () => gettext("You stopped this answer."),
  interrupted: () => gettext("The answer broke off. What was written is kept."),
  failed: () => gettext("The answer failed."),
};
// The same words are in `templates/chat/_answer.html`, for answers of before.
const CACHED = {
  hit: () => gettext("Given before, to the same question. Regenerate asks anew."),
  semantic: () =>
    gettext("Given before, to a question that means the same. Regenerate asks anew."),
  shared: () => gettext("Written once for this question, which was asked twice at the same time."),
};

export class Answer {
  /** `citationUrl(id)` is the address of a citation. */
  constructor(element, citationUrl) {
    this.element = element;
    this.citationUrl = citationUrl;
    this.body = element.querySelector(".answer-body");
    this.statusText = element.querySelector(".answer-status-text");
    this.sources = new Map();
    this.writing = new Writing(this.body, this.sources);
    this.sequence = -1;
    this.setState("waiting", gettext("Sending…"));
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
      "answer.block": () => this.writing.finishBlock(frame.end, frame.html),
      "answer.finished": () => this.finished(frame),
    };
    handlers[frame.type]?.();
    return true;
  }

  started(frame) {
    this.element.dataset.answer = frame.answer;
    this.setState("waiting", gettext("Searching…"));
  }

  hop(frame) {
    if (this.writing.begun || frame.state !== "started") return;
    const words = AT_WORK[frame.hop]?.();
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
    if (sources.length && !this.writing.begun) {
      this.setState("waiting", gettext("Reading the best passages…"));
    }
  }

  notice(message) {
    const paragraph = document.createElement("p");
    paragraph.className = "notice warning";
    paragraph.textContent = message;
    this.element.querySelector(".answer-notices").append(paragraph);
  }

  tokens(text) {
    this.setState("streaming", gettext("Writing…"));
    this.writing.add(text);
  }

  finished(frame) {
    this.writing.finish(frame.html);
    this.element.dataset.kind = frame.kind ?? "";
    const cited = new Set(frame.cited);
    for (const item of this.element.querySelectorAll(".source")) {
      item.toggleAttribute("data-cited", cited.has(Number(item.dataset.marker)));
    }
    this.cached(frame.cache);
    this.end(frame.state, frame.error?.message ?? ENDED[frame.state]?.());
    this.nameParts();
  }

  /** Says where the answer is from, if it was not written for this question. */
  cached(how) {
    const line = this.element.querySelector(".answer-cache");
    line.textContent = CACHED[how]?.() ?? "";
    line.hidden = !line.textContent;
  }

  /** All came out of a template: its addresses and labels stand for no answer yet. */
  nameParts() {
    for (const part of [this.element, ...this.element.querySelectorAll("*")]) {
      for (const { name, value } of [...part.attributes]) {
        if (value.includes(ANY_ID)) part.setAttribute(name, value.replaceAll(ANY_ID, this.id));
      }
    }
    for (const part of this.element.querySelectorAll(".feedback, .answer-details")) {
      part.hidden = false;
      window.htmx?.process(part);
    }
  }

  /** Ends the answer, with words about how where it did not simply end. */
  end(state, words) {
    this.setState(state);
    const line = this.element.querySelector(".answer-end");
    line.hidden = !words;
    line.querySelector("span").textContent = words ?? "";
    line.classList.toggle("error", state === "failed");
  }

  /** What a screen reader is told once, at the end. */
  spoken() {
    const line = this.element.querySelector(".answer-end");
    return [spokenText(this.body), line.hidden ? "" : line.textContent.trim()].join(" ");
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
  meter.title = fill(gettext("Relevance %(percent)s of 100"), {
    percent: Math.round(source.relevance * 100),
  });
  return item;
}

function placeOf({ page_first: first, page_last: last }) {
  if (first === last) return fill(gettext("page %(number)s"), { number: first });
  return fill(gettext("pages %(first)s to %(last)s"), { first, last });
}
