// The field questions are typed into.

const COUNT_FROM = 0.8; // of the limit: before that a counter only distracts

export class Composer {
  /** `onSend(question)` answers whether the question was taken; `onStop()` stops the answer. */
  constructor(form, { onSend, onStop }) {
    this.form = form;
    this.field = form.querySelector("textarea");
    this.counter = form.querySelector("[data-counter]");
    this.send = form.querySelector("[data-send]");
    this.stop = form.querySelector("[data-stop]");
    this.limit = Number(form.dataset.questionMax);
    this.busy = false;
    this.allowed = true;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit(onSend);
    });
    this.field.addEventListener("keydown", (event) => this.onKey(event));
    this.field.addEventListener("input", () => this.update());
    this.stop.addEventListener("click", onStop);
    this.update();
  }

  onKey(event) {
    // Enter while an input method composes picks a word; it does not send.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.form.requestSubmit();
  }

  submit(onSend) {
    const question = this.field.value.trim();
    if (!question || this.send.disabled || this.busy) return;
    if (onSend(question)) this.fill("");
  }

  fill(text) {
    this.field.value = text;
    this.update();
    this.field.focus();
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
    const length = [...this.field.value.trim()].length;
    const tooLong = length > this.limit;
    this.counter.hidden = length < this.limit * COUNT_FROM;
    this.counter.textContent = `${length} of ${this.limit}`;
    this.counter.classList.toggle("over", tooLong);
    this.field.setAttribute("aria-invalid", String(tooLong));
    this.send.disabled = !length || tooLong || !this.allowed;
    this.grow();
  }

  // field-sizing does this in CSS where it is known; rows is the fallback that needs no style.
  grow() {
    if (CSS.supports("field-sizing", "content")) return;
    this.field.rows = Math.min(8, Math.max(1, this.field.value.split("\n").length));
  }
}
