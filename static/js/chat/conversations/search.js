// Search in one's own history: a dialog that finds as one types.

export class Search {
  constructor(dialog, button) {
    Object.assign(this, { dialog, button });
    this.field = dialog.querySelector("#search-field");
    this.results = dialog.querySelector("#search-results");
    this.said = dialog.querySelector("#search-said");
    button.addEventListener("click", () => this.open());
    document.addEventListener("chat:search", () => this.open());
    dialog.addEventListener("keydown", (event) => this.#onKey(event));
    dialog.addEventListener("click", (event) => {
      // Inside the same page the address changes and nothing is loaded.
      if (event.target.closest("a")) dialog.close();
    });
    dialog.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.links[0]?.click();
    });
    this.results.addEventListener("htmx:afterSwap", () => {
      this.said.textContent = this.results.querySelector("[data-said]")?.dataset.said ?? "";
    });
  }

  get links() {
    return [...this.results.querySelectorAll("a")];
  }

  open() {
    if (this.dialog.open) return;
    this.dialog.showModal();
    this.field.select();
    window.htmx?.trigger(this.field, "search-now");
  }

  /** ↑ and ↓ go through field and results; a letter goes back to the field. */
  #onKey(event) {
    const stops = [this.field, ...this.links];
    const at = stops.indexOf(document.activeElement);
    if (event.isComposing || at < 0) return;
    const next = { ArrowDown: stops[at + 1], ArrowUp: stops[at - 1] }[event.key];
    if (next) {
      event.preventDefault();
      next.focus();
      next.scrollIntoView({ block: "nearest" });
    } else if (at > 0 && event.key.length === 1 && !event.ctrlKey && !event.metaKey) {
      this.field.focus();
    }
  }
}
