// The field questions are typed into.

import { fill, gettext } from "../i18n.js";

const COUNT_FROM = 0.8; // of the limit: before that a counter only distracts

export class Composer {
  /**
   * `onSend(question)` answers whether the question was taken; `onStop()` stops the answer;
   * `onInput(text)` hears what is typed; `onUp()` the up arrow in an empty field.
   */
  constructor(form, { onSend, onStop, onInput, onUp }) {
    this.form = form;
    this.field = form.querySelector("textarea");
    this.counter = form.querySelector("[data-counter]");
    this.send = form.querySelector("[data-send]");
    this.stop = form.querySelector("[data-stop]");
    this.limit = Number(form.dataset.questionMax);
    this.busy = false;
    this.allowed = true;
    this.onUp = onUp;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit(onSend);
    });
    this.field.addEventListener("keydown", (event) => this.onKey(event));
    this.field.addEventListener("input", () => {
      this.update();
      onInput(this.field.value);
    });
    this.stop.addEventListener("click", onStop);
    this.update();
  }

  get text() {
    return this.field.value;
  }

  onKey(event) {
    // Keys while an input method composes are about its words: Enter picks one.
    if (event.isComposing || event.shiftKey) return;
    if (event.key === "ArrowUp" && !this.text) {
      event.preventDefault();
      this.onUp();
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.form.requestSubmit();
    }
  }

  submit(onSend) {
    const question = this.text.trim();
    if (!question || this.send.disabled || this.busy) return;
    if (onSend(question)) this.set("");
  }

  /** Puts a text into the field, and the reader there. */
  fill(text) {
    this.set(text);
    this.field.focus();
  }

  set(text) {
    this.field.value = text;
    this.update();
  }

  setBusy(busy) {
    const stopHadFocus = document.activeElement === this.stop;
    this.busy = busy;
    this.stop.hidden = !busy;
    this.send.hidden = busy;
    this.update();
    if (stopHadFocus && !busy) this.field.focus();
  }

  setAllowed(allowed) {
    this.allowed = allowed;
    this.update();
  }

  update() {
    // Code points, as the server counts them.
    const length = [...this.text.trim()].length;
    const tooLong = length > this.limit;
    this.counter.hidden = length < this.limit * COUNT_FROM;
    this.counter.textContent = fill(gettext("%(count)s of %(limit)s"), {
      count: length,
      limit: this.limit,
    });
    this.counter.classList.toggle("over", tooLong);
    this.field.setAttribute("aria-invalid", String(tooLong));
    this.send.disabled = !length || tooLong || !this.allowed;
    this.grow();
  }

  // field-sizing does this in CSS where it is known; rows is the fallback that needs no style.
  grow() {
    if (CSS.supports("field-sizing", "content")) return;
    this.field.rows = Math.min(8, Math.max(1, this.text.split("\n").length));
  }
}
