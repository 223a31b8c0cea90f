// The messages on the page: questions, answers, and two answers side by side.

import { describeBranches, siblingsOf } from "./branches.js";
import { copyOf } from "./ids.js";

export class Thread {
  /** `labelOf(alias)` is what a model is called. */
  constructor(root, labelOf) {
    this.root = root;
    this.labelOf = labelOf;
    this.labelSides();
  }

  /** Questions, answers and comparisons, in order. */
  get entries() {
    return [...this.root.children].filter((each) => each.matches(".message, .comparison"));
  }

  get lastAnswer() {
    return [...this.root.querySelectorAll(".answer")].at(-1);
  }

  get lastQuestion() {
    return [...this.root.querySelectorAll(".question[data-message]")].at(-1);
  }

  /** The answer that the next question follows; null where it is the first. */
  get leaf() {
    const last = this.entries.at(-1);
    const answer = last?.querySelector(".compared[data-chosen] .answer") ?? last;
    return answer?.dataset.answer || answer?.dataset.after || null;
  }

  /** Answers that are being written, as far as the page knows. */
  get streaming() {
    return [...this.root.querySelectorAll('.answer[data-state="streaming"]')].filter(
      (answer) => answer.dataset.answer,
    );
  }

  answer(id) {
    return this.root.querySelector(`[id="answer-${id}"]`);
  }

  append(...elements) {
    const end = [...this.root.children].find((each) => !each.matches(".message, .comparison"));
    for (const element of elements) this.root.insertBefore(element, end ?? null);
    this.setFollowUps([]);
  }

  /** Takes an entry and all after it off the page; the function returned brings them back. */
  cut(entry) {
    const { entries } = this;
    const gone = entries.slice(entries.indexOf(entry));
    for (const each of gone) each.remove();
    return () => this.append(...gone);
  }

  setFollowUps(questions) {
    const place = this.root.querySelector("#follow-ups");
    if (!place) return;
    const items = questions.map((question) => {
      const item = copyOf("follow-up-template");
      item.querySelector("button").dataset.suggestion = question;
      item.querySelector("[data-suggestion-text]").textContent = question;
      return item;
    });
    place.querySelector("ul").replaceChildren(...items);
    place.hidden = !items.length;
  }

  /** Shows the thread as the site has it now; what is the same stays as it is. */
  adopt(fresh, isLive) {
    const known = new Map([...this.root.children].map((each) => [each.id, each]));
    const wanted = [...fresh.children].map((next) => {
      const old = known.get(next.id);
      return old && isSame(old, next, isLive) ? refreshed(old, next) : next;
    });
    const kept = new Set(wanted);
    for (const each of [...this.root.children]) if (!kept.has(each)) each.remove();
    let at = this.root.firstElementChild;
    for (const each of wanted) {
      if (each === at) at = at.nextElementSibling;
      else this.root.insertBefore(each, at);
    }
    this.labelSides();
    window.htmx?.process(this.root);
  }

  labelSides() {
    for (const side of this.root.querySelectorAll(".compared")) {
      side.querySelector(".compared-model").textContent = this.labelOf(side.dataset.model);
    }
  }

  /** The site's own version of one answer. */
  replaceAnswer(old, fresh) {
    old.replaceWith(fresh);
    window.htmx?.process(fresh);
  }
}

export function questionElement(text) {
  const element = copyOf("question-template");
  element.querySelector(".question-text").textContent = text;
  return element;
}

/** Empty answers for these models: `[entry, answers]`; two stand side by side. */
export function answerElements(models) {
  if (models.length < 2) {
    const answer = copyOf("answer-template");
    return [answer, [answer]];
  }
  const entry = copyOf("comparison-template");
  const answers = models.map(({ alias, label }) => {
    const side = copyOf("compared-template");
    side.dataset.model = alias;
    side.querySelector(".compared-model").textContent = label;
    entry.querySelector(".compared-sides").append(side);
    return side.querySelector(".answer");
  });
  entry.querySelector(".compared").toggleAttribute("data-chosen", true);
  return [entry, answers];
}

/** What is known of an answer once it has started, put where the page looks for it. */
export function nameAnswer(answer, frame) {
  answer.id = `answer-${frame.answer}`;
  answer.dataset.answer = frame.answer;
  const comparison = answer.closest(".comparison");
  if (comparison) comparison.id = `comparison-${frame.comparison}`;
}

export function nameQuestion(question, frame) {
  question.id = `question-${frame.question}`;
  question.dataset.message = frame.question;
  question.dataset.after = frame.after ?? "";
}

function isSame(old, next, isLive) {
  if (old.matches(".answer")) return isLive(old) || old.dataset.state === next.dataset.state;
  if (!old.matches(".comparison")) return old.matches(".question, .welcome");
  return [...next.querySelectorAll(".answer")].every((answer) => {
    const here = old.querySelector(`[id="${answer.id}"]`);
    return here && isSame(here, answer, isLive);
  });
}

/** Branches may have come or gone beside a message that is the same. */
function refreshed(old, next) {
  const controls = old.querySelectorAll(".branches");
  for (const [at, branches] of [...next.querySelectorAll(".branches")].entries()) {
    if (!controls[at]) continue;
    const { ids, position } = siblingsOf(branches);
    describeBranches(controls[at], ids, position);
  }
  const sides = old.querySelectorAll(".compared");
  for (const [at, side] of [...next.querySelectorAll(".compared")].entries()) {
    sides[at]?.toggleAttribute("data-chosen", side.hasAttribute("data-chosen"));
  }
  return old;
}
