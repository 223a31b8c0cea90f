// What the next question searches, and which models answer it.

import { fill, gettext, ngettext } from "../i18n.js";

export class Picker {
  constructor(page) {
    this.boxes = [...page.querySelectorAll("input[name=collection]")];
    this.summary = page.querySelector("[data-collections-summary]");
    this.select = page.querySelector("select[name=model]");
    this.second = page.querySelector("select[name=compare]");
    for (const box of this.boxes) box.addEventListener("change", () => this.describe());
    this.select?.addEventListener("change", () => this.allowOthers());
    this.describe();
    this.allowOthers();
  }

  collections() {
    return this.boxes.filter((box) => box.checked).map((box) => box.value);
  }

  model() {
    return this.select?.value ?? "";
  }

  /** The models that answer the next question: `{alias, label}`; two of them side by side. */
  models() {
    return [this.select, this.second].filter((select) => select?.value).map(picked);
  }

  /** Two answers cost twice: comparing is for one question, not until it is thought of again. */
  compareNoMore() {
    if (this.second) this.second.value = "";
  }

  label(alias) {
    const option = [...(this.select?.options ?? [])].find((each) => each.value === alias);
    return option?.textContent.trim() ?? alias;
  }

  /** A model is compared with another one. */
  allowOthers() {
    if (!this.second) return;
    for (const option of this.second.options) {
      option.hidden = option.disabled = Boolean(option.value) && option.value === this.model();
    }
    if (this.second.value === this.model()) this.second.value = "";
  }

  describe() {
    if (!this.summary) return;
    const chosen = this.boxes.filter((box) => box.checked);
    if (chosen.length === 1) this.summary.textContent = chosen[0].dataset.name;
    else if (!chosen.length) this.summary.textContent = gettext("No collection");
    else if (chosen.length === this.boxes.length) {
      this.summary.textContent = gettext("All collections");
    } else {
      const words = ngettext("%(count)s collection", "%(count)s collections", chosen.length);
      this.summary.textContent = fill(words, { count: chosen.length });
    }
  }
}

const picked = (select) => ({
  alias: select.value,
  label: select.selectedOptions[0].textContent.trim(),
});
