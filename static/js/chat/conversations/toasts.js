// Short messages at the edge of the page, some with a way to undo.

import { gettext } from "../../i18n.js";

const SHOWN_MS = 20000; // with something to undo; pointed at or in the keyboard's focus: longer
const SAID_MS = 8000;
const KEPT = "toast";

export class Toasts {
  constructor(region) {
    this.region = region;
  }

  /** `onGone` is told whether the focus was in it. */
  show({ words, action = "", onAction = () => {}, onGone = () => {} }) {
    const toast = document.createElement("div");
    toast.className = "toast";
    const text = document.createElement("p");
    text.textContent = words;
    text.dir = "auto";
    toast.append(text);
    let timer;
    const go = () => {
      clearTimeout(timer);
      const hadFocus = toast.contains(document.activeElement);
      toast.remove();
      onGone(hadFocus);
    };
    if (action) {
      toast.append(
        button("button small", action, () => {
          onGone = () => {};
          go();
          onAction();
        }),
      );
    }
    toast.append(button("button quiet small", gettext("Close"), go));
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(
        () => (isUsed(toast) ? wait() : go()),
        action ? SHOWN_MS : SAID_MS,
      );
    };
    toast.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      go();
    });
    this.region.replaceChildren(toast);
    wait();
    return toast;
  }

  /** Shown on the page that comes next. */
  keep(what) {
    try {
      sessionStorage.setItem(KEPT, JSON.stringify({ ...what, until: Date.now() + SHOWN_MS }));
    } catch {
      // Storage is forbidden: the message is lost, what was done is not.
    }
  }

  showKept(toastOf) {
    try {
      const kept = JSON.parse(sessionStorage.getItem(KEPT));
      sessionStorage.removeItem(KEPT);
      if (kept && kept.until > Date.now()) this.show(toastOf(kept));
    } catch {
      // Nothing can have been kept.
    }
  }
}

const isUsed = (toast) => toast.matches(":hover") || toast.querySelector(":focus-visible");

function button(className, words, onClick) {
  const made = document.createElement("button");
  Object.assign(made, { className, type: "button", textContent: words });
  made.addEventListener("click", onClick);
  return made;
}
