// Follows the end of the thread while the reader is there, and leaves the reader alone elsewhere.

const NEAR_END_PX = 80; // closer to the end than this counts as being there

export class Scrolling {
  /** `button` jumps to the latest message; it is shown while the end is out of sight. */
  constructor(scroller, thread, button) {
    this.scroller = scroller;
    this.button = button;
    this.following = true;
    this.top = 0; // where the reader was last
    scroller.addEventListener("scroll", () => this.look(), { passive: true });
    button.addEventListener("click", () => this.toEnd());
    new ResizeObserver(() => this.grown()).observe(thread);
    new ResizeObserver(() => this.grown()).observe(scroller);
    this.toEnd();
  }

  get rest() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
  }

  /** Only going up leaves the end: what grows below takes it out of sight without the reader. */
  look() {
    const { scrollTop } = this.scroller;
    if (this.rest < NEAR_END_PX) this.following = true;
    else if (scrollTop < this.top) this.following = false;
    this.top = scrollTop;
    this.show();
  }

  grown() {
    if (this.following) this.toEnd();
    else this.show();
  }

  show() {
    const hadFocus = document.activeElement === this.button;
    this.button.hidden = this.rest < NEAR_END_PX;
    if (hadFocus && this.button.hidden) this.scroller.focus({ preventScroll: true });
  }

  toEnd() {
    this.following = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.show();
  }
}
