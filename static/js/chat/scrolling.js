// Follows the end of the thread while the reader is there, and leaves the reader alone elsewhere.

const NEAR_END_PX = 48; // closer to the end than this counts as being there
const MOVING_MS = 800; // a wheel's or a finger's swing goes on after it is let go

export class Scrolling {
  /** `button` jumps to the latest message; it is shown while the end is out of sight. */
  constructor(scroller, thread, button) {
    this.scroller = scroller;
    this.button = button;
    this.following = true;
    this.top = 0; // where the reader was last
    this.moved = 0; // when the reader last did what may scroll
    scroller.addEventListener("scroll", () => this.look(), { passive: true });
    const note = ({ type, buttons }) => {
      if (type !== "pointermove" || buttons) this.moved = Date.now();
    };
    for (const kind of ["wheel", "pointerdown", "pointermove", "touchmove", "keydown", "focusin"]) {
      scroller.addEventListener(kind, note, { passive: true });
    }
    button.addEventListener("click", () => this.toEnd());
    new ResizeObserver(() => this.grown()).observe(thread);
    new ResizeObserver(() => this.grown()).observe(scroller);
    this.toEnd();
  }

  get rest() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
  }

  /** Only a reader who goes up leaves the end: what grows or shrinks moves the view as well. */
  look() {
    const { scrollTop } = this.scroller;
    const byReader = Date.now() - this.moved < MOVING_MS;
    if (this.rest < NEAR_END_PX) this.following = true;
    else if (scrollTop < this.top && byReader) this.following = false;
    this.top = scrollTop;
    this.show();
  }

  grown() {
    if (this.following) this.toEnd();
    else this.show();
  }

  show() {
    const hadFocus = document.activeElement === this.button;
    this.button.hidden = this.following || this.rest < NEAR_END_PX;
    if (hadFocus && this.button.hidden) this.scroller.focus({ preventScroll: true });
  }

  toEnd() {
    this.following = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.show();
  }
}
