// Editing a question of one's own: its text becomes a field, and what is saved is asked anew.

import { copyOf } from "./ids.js";

export class Editing {
  /** `onSave(question, text)` answers whether the edited question was taken. */
  constructor({ limit, onSave }) {
    this.limit = limit;
    this.onSave = onSave;
  }

  open(question, text = question.querySelector(".question-text").textContent) {
    if (question.hasAttribute("data-editing")) return;
    question.toggleAttribute("data-editing", true);
    const form = copyOf("edit-template");
    const field = form.querySelector("textarea");
    field.value = text;
    question.append(form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.save(question, field);
    });
    form.addEventListener("keydown", (event) => this.onKey(event, question, form));
    form.querySelector("[data-edit-cancel]").addEventListener("click", () => this.close(question));
    field.addEventListener("input", () => this.check(form, field));
    this.check(form, field);
    field.focus();
    field.setSelectionRange(text.length, text.length);
  }

  onKey(event, question, form) {
    if (event.isComposing) return;
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      this.close(question);
    }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  }

  check(form, field) {
    const length = [...field.value.trim()].length;
    const tooLong = length > this.limit;
    field.setAttribute("aria-invalid", String(tooLong));
    form.querySelector("[type=submit]").disabled = !length || tooLong;
  }

  save(question, field) {
    const text = field.value.trim();
    if (!text || [...text].length > this.limit) return;
    // Closed first: the question as it was is what comes back where the edit is refused.
    this.close(question);
    if (!this.onSave(question, text)) this.open(question, text);
  }

  close(question) {
    question.querySelector("form.edit")?.remove();
    question.removeAttribute("data-editing");
    question.querySelector("[data-edit]")?.focus();
  }
}
