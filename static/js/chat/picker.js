// What the next question searches, and which model answers it.

export class Picker {
  constructor(page) {
    this.boxes = [...page.querySelectorAll("input[name=collection]")];
    this.summary = page.querySelector("[data-collections-summary]");
    this.select = page.querySelector("select[name=model]");
    for (const box of this.boxes) box.addEventListener("change", () => this.describe());
    this.describe();
  }

  collections() {
    return this.boxes.filter((box) => box.checked).map((box) => box.value);
  }

  model() {
    return this.select?.value ?? "";
  }

  describe() {
    if (!this.summary) return;
    const picked = this.boxes.filter((box) => box.checked);
    if (picked.length === 1) this.summary.textContent = picked[0].dataset.name;
    else if (!picked.length) this.summary.textContent = "No collection";
    else if (picked.length === this.boxes.length) this.summary.textContent = "All collections";
    else this.summary.textContent = `${picked.length} collections`;
  }
}
