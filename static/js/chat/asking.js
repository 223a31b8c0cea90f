// Questions on their way: from the key that sends them until their answers have begun.

import { fill, gettext } from "../i18n.js";
import { describeBranches, siblingsOf } from "./branches.js";
import { newId } from "./ids.js";
import { answerElements, nameAnswer, nameQuestion, questionElement } from "./thread.js";

const OFFLINE = gettext("There is no connection at the moment. Your question is kept; send it again.");

export class Asking {
  /**
   * `make(element)` makes an Answer; `refuse(words)` says why nothing was sent; `onChange()`
   * hears that something has begun or ended; `onStarted(frame)` that a question has arrived.
   */
  constructor(parts) {
    Object.assign(this, parts);
    this.pending = new Map();
    this.stopping = false;
  }

  /** Asks a question after what is shown. Answers whether it was taken. */
  ask(text, conversation) {
    const question = questionElement(text);
    return this.sendQuestion({ question, text, conversation, after: this.thread.leaf });
  }

  /** Asks an edited question in the place of `old`, as a branch beside it. */
  edit(old, text, conversation) {
    const question = questionElement(text);
    const { ids: siblings } = siblingsOf(old.querySelector(".branches"));
    const after = old.dataset.after || null;
    return this.sendQuestion({ question, text, conversation, after, old, siblings });
  }

  /** Answers the question of `old` once more, as a branch beside it. */
  regenerate(old) {
    return this.again(old, { type: "regenerate", model: this.picker.model() });
  }

  /** Goes on from an answer that was stopped or broke off. */
  goOn(old) {
    return this.again(old, { type: "continue" });
  }

  sendQuestion({ question, text, conversation, after, old, siblings }) {
    const collections = this.picker.collections();
    if (!collections.length) {
      this.refuse(gettext("Pick at least one collection to search."));
      return false;
    }
    const models = this.picker.models();
    const frame = { type: "ask", conversation, after, collections, question: text };
    frame.models = models.map(({ alias }) => alias);
    return this.send(frame, () => {
      const [entry, answers] = answerElements(models);
      const putBack = old && this.thread.cut(old);
      this.thread.append(question, entry);
      const undo = () => {
        question.remove();
        entry.remove();
        putBack?.();
      };
      return { text, question, answers, siblings, old, undo };
    });
  }

  again(old, frame) {
    if (this.pending.size) return false;
    const entry = old.closest(".comparison") ?? old;
    return this.send({ ...frame, answer: old.dataset.answer }, () => {
      const { ids: siblings } = siblingsOf([...entry.querySelectorAll(".branches")].at(-1));
      const [shell, answers] = answerElements([]);
      const putBack = this.thread.cut(entry);
      this.thread.append(shell);
      const undo = () => {
        shell.remove();
        putBack();
      };
      return { answers, siblings, undo };
    });
  }

  /** Sends, and then lays out what `layOut()` makes. Nothing changes where it can't be sent. */
  send(frame, layOut) {
    this.refuse("");
    const id = newId();
    const whole = { ...frame, id };
    if (!this.socket.send(whole)) {
      this.refuse(OFFLINE);
      return false;
    }
    const asked = { id, frame: whole, ...layOut() };
    asked.answers = asked.answers.map((element) => ({ element, answer: this.make(element) }));
    this.pending.set(id, asked);
    this.announcer.searching();
    this.onChange();
    return true;
  }

  /** An answer has begun that was asked for here: answers whether it was. */
  started(frame) {
    const asked = this.pending.get(frame.id);
    if (!asked || this.following.has(frame.answer)) return false;
    const at = asked.answers.findIndex(({ element }) => sideOf(element) === frame.model);
    const [{ element, answer }] = asked.answers.splice(Math.max(0, at), 1);
    this.name(asked, element, frame);
    this.following.begin(frame.answer, element, answer);
    if (!asked.answers.length) this.pending.delete(frame.id);
    this.onStarted(frame);
    if (this.stopping) this.stop();
    return true;
  }

  /** An edited question is a version beside the old one; without a question, the answer is. */
  name({ question, siblings = [] }, element, frame) {
    nameAnswer(element, frame);
    if (question) nameQuestion(question, frame);
    if (question) addVersion(question, siblings, frame.question);
    addVersion(controlled(element), question ? [] : siblings, frame.answer);
  }

  /** Ends what is being written, and what is about to be. */
  stop() {
    this.stopping = this.pending.size > 0;
    for (const id of this.following.ids) this.socket.send({ type: "stop", answer: id });
  }

  /** A frame was refused. Answers what it was about, if it was something of here. */
  refused(id) {
    const asked = this.pending.get(id);
    if (!asked) return null;
    this.pending.delete(id);
    asked.undo();
    this.settle();
    return asked;
  }

  settle() {
    if (!this.pending.size) this.stopping = false;
    this.onChange();
  }

  /** Connected again: the site tells by the id whether a question had arrived before. */
  resume() {
    for (const { frame } of this.pending.values()) this.socket.send(frame);
  }
}

// Two answers that are compared are one version.
const controlled = (answer) => answer.closest(".comparison") ?? answer;

const sideOf = (answer) => answer.closest(".compared")?.dataset.model;

function addVersion(message, siblings, id) {
  const controls = [...message.querySelectorAll(".branches")].at(-1);
  // The second of two compared answers, or the same one told again.
  if (siblingsOf(controls).ids.length) return;
  const ids = [...siblings, id];
  describeBranches(controls, ids, ids.length);
}
