// A menu that opens from a button: keys as in the ARIA pattern, a sheet at the bottom of a phone.

const GAP_PX = 4;
const isPhone = () => matchMedia("(max-width: 46rem)").matches;

export class Menu {
  /** `onChoose(name, subject)`; `prepare(element, subject)` before it opens. */
  constructor(element, { onChoose, onToggle, prepare = () => {} }) {
    Object.assign(this, { element, onChoose, onToggle, prepare });
    this.button = null;
    element.addEventListener("keydown", (event) => this.#onKey(event));
    element.addEventListener("click", (event) => this.#onClick(event));
    document.addEventListener("pointerdown", (event) => {
      const { target } = event;
      if (this.button && !element.contains(target) && !this.button.contains(target)) this.close();
    });
    addEventListener("resize", () => this.close());
  }

  get items() {
    return [...this.element.querySelectorAll("[role=menuitem]")].filter((item) => !item.hidden);
  }

  toggle(button, subject) {
    const again = this.button === button;
    this.close();
    if (!again) this.#open(button, subject);
  }

  close({ focus = false } = {}) {
    const { button } = this;
    if (!button) return;
    this.button = null;
    button.setAttribute("aria-expanded", "false");
    this.element.hidePopover();
    if (focus) button.focus();
    this.onToggle(false);
  }

  #open(button, subject) {
    Object.assign(this, { button, subject });
    this.prepare(this.element, subject);
    button.setAttribute("aria-expanded", "true");
    this.element.showPopover();
    this.#place();
    this.onToggle(true);
    this.items[0].focus();
  }

  /** Below the button or above it, its end at the button's end, and inside the window. */
  #place() {
    const { style } = this.element;
    style.left = style.top = "";
    if (isPhone()) return;
    const at = this.button.getBoundingClientRect();
    const size = this.element.getBoundingClientRect();
    const isRtl = getComputedStyle(this.element).direction === "rtl";
    const left = isRtl ? at.right - size.width : at.left;
    const below = at.bottom + GAP_PX;
    const top = below + size.height > innerHeight ? at.top - size.height - GAP_PX : below;
    style.left = `${Math.max(GAP_PX, Math.min(left, innerWidth - size.width - GAP_PX))}px`;
    style.top = `${Math.max(GAP_PX, Math.min(top, innerHeight - size.height - GAP_PX))}px`;
  }

  #onClick(event) {
    const item = event.target.closest("[role=menuitem]");
    if (!item) return;
    const { subject } = this;
    // The button has the focus when the choice begins: what it opens gives it back there.
    this.close({ focus: true });
    if (item.dataset.do) this.onChoose(item.dataset.do, subject);
  }

  #onKey(event) {
    const { items } = this;
    const at = items.indexOf(document.activeElement);
    const next = {
      ArrowDown: items[(at + 1) % items.length],
      ArrowUp: items[(at - 1 + items.length) % items.length],
      Home: items[0],
      End: items.at(-1),
    }[event.key];
    if (next) next.focus();
    else if (event.key === "Escape") this.close({ focus: true });
    else if (event.key === "Tab") return this.close({ focus: true });
    else if (event.key.length !== 1 || event.key === " " || !this.#find(event.key, at)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** The next item that begins with that letter. */
  #find(letter, at) {
    const { items } = this;
    const ordered = [...items.slice(at + 1), ...items.slice(0, at + 1)];
    const found = ordered.find((item) =>
      item.textContent.trim().toLowerCase().startsWith(letter.toLowerCase()),
    );
    found?.focus();
    return found;
  }
}
