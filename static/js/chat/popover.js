// A small box beside a word: it opens on hover and focus, stays while the pointer is in it, and
// closes on Escape (WCAG 1.4.13). Touch opens none: there a tap does what a click does.

const OPEN_AFTER_MS = 200;
const CLOSE_AFTER_MS = 300;
const GAP_PX = 6;

export class Popover {
  /** `fill(anchor, box)` puts words into the box, now or later; false where there are none. */
  constructor(selector, fill) {
    Object.assign(this, { selector, fill, anchor: null, timer: undefined });
    this.box = document.createElement("div");
    this.box.className = "popover-box";
    this.box.id = `popover-${Math.random().toString(36).slice(2)}`;
    this.box.setAttribute("role", "tooltip");
    this.box.setAttribute("popover", "manual");
    // In the page's main part, where those who go by landmarks look.
    (document.querySelector("main") ?? document.body).append(this.box);
    this.listen();
  }

  listen() {
    document.addEventListener("pointerover", (event) => this.over(event));
    document.addEventListener("pointerout", (event) => this.out(event));
    document.addEventListener("focusin", (event) => this.focused(event));
    document.addEventListener("focusout", () => this.soon(() => this.close(), CLOSE_AFTER_MS));
    document.addEventListener("scroll", () => this.place(), { capture: true, passive: true });
    // Before others who close something larger on Escape.
    document.addEventListener("keydown", (event) => this.onKey(event), { capture: true });
  }

  over(event) {
    if (event.pointerType === "touch") return;
    const anchor = event.target.closest(this.selector);
    if (this.box.contains(event.target)) clearTimeout(this.timer);
    else if (anchor === this.anchor && anchor) clearTimeout(this.timer);
    else if (anchor) this.soon(() => this.open(anchor), OPEN_AFTER_MS);
  }

  out(event) {
    const leaves = this.box.contains(event.target) || event.target.closest(this.selector);
    if (leaves) this.soon(() => this.close(), CLOSE_AFTER_MS);
  }

  focused(event) {
    const anchor = event.target.closest(this.selector);
    if (anchor?.matches(":focus-visible")) this.soon(() => this.open(anchor), OPEN_AFTER_MS);
  }

  onKey(event) {
    if (event.key !== "Escape" || !this.anchor) return;
    event.preventDefault();
    event.stopPropagation();
    this.close();
  }

  soon(act, after) {
    clearTimeout(this.timer);
    this.timer = setTimeout(act, after);
  }

  open(anchor) {
    this.close();
    if (!anchor.isConnected || this.fill(anchor, this.box) === false) return;
    this.anchor = anchor;
    anchor.setAttribute("aria-describedby", this.box.id);
    this.box.showPopover?.();
    this.place();
  }

  /** Below the word, or above it where there is more room; inside the window. */
  place() {
    if (!this.anchor) return;
    const { top, bottom, left } = this.anchor.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height, style } = this.box;
    const below = bottom + GAP_PX + height <= innerHeight || top < height + GAP_PX;
    style.top = `${below ? bottom + GAP_PX : top - GAP_PX - height}px`;
    style.left = `${Math.max(GAP_PX, Math.min(left, innerWidth - width - GAP_PX))}px`;
  }

  close() {
    clearTimeout(this.timer);
    this.anchor?.removeAttribute("aria-describedby");
    this.anchor = null;
    if (this.box.matches(":popover-open")) this.box.hidePopover();
  }
}
