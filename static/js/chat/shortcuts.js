// The keys of the chat, and the sheet that lists them.

const IS_MAC = /Mac|iPhone|iPad/.test(navigator.platform);
const SINGLE_OFF = "single-keys-off";
// What Escape closes before it stops an answer.
const OPEN =
  "dialog[open], details.menu[open], .sources[data-open=true], form.edit, :popover-open, " +
  ".rename-field, .toast:focus-within";

export class Shortcuts {
  /** `actions`: search(), newChat(), copyLast(), stop(), closeDrawer(). */
  constructor(sheet, actions) {
    this.sheet = sheet;
    this.actions = actions;
    this.single = sheet.querySelector("[data-single-keys]");
    this.single.checked = !stored();
    this.single.addEventListener("change", () => store(!this.single.checked));
    if (IS_MAC) for (const key of sheet.querySelectorAll("[data-mod]")) key.textContent = "⌘";
    // While it is captured, what others are about to close is still open.
    document.addEventListener("keydown", (event) => this.onKey(event), { capture: true });
  }

  onKey(event) {
    if (event.isComposing || event.defaultPrevented) return;
    const action = event.key === "Escape" ? this.escape(event.target) : this.find(event);
    if (!action) return;
    if (event.key !== "Escape") event.preventDefault();
    action();
  }

  find(event) {
    const { key, shiftKey, altKey } = event;
    if (altKey || document.querySelector("dialog[open]")) return null;
    const keyed = IS_MAC ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey;
    if (keyed) return this.withModifier(key.toLowerCase(), shiftKey);
    if (event.ctrlKey || event.metaKey || !this.single.checked || isTyping(event.target)) return null;
    return { "?": () => this.show(), "/": this.actions.search }[key];
  }

  withModifier(key, shiftKey) {
    if (key === "/" || key === "?") return () => this.show();
    if (shiftKey) return { o: this.actions.newChat, c: this.actions.copyLast }[key];
    return { k: this.actions.search }[key];
  }

  escape(target) {
    // A field that a title is changed in is left by Escape, too.
    if (document.querySelector(OPEN) || target.closest?.("input")) return null;
    return this.actions.closeDrawer() ? null : this.actions.stop;
  }

  show() {
    this.sheet.showModal();
  }
}

const isTyping = (target) =>
  target.isContentEditable || Boolean(target.closest?.("input, textarea, select"));

function stored() {
  try {
    return localStorage.getItem(SINGLE_OFF);
  } catch {
    return null; // storage is forbidden: the keys work
  }
}

function store(off) {
  try {
    if (off) localStorage.setItem(SINGLE_OFF, "1");
    else localStorage.removeItem(SINGLE_OFF);
  } catch {
    // The choice then lasts for this page only.
  }
}
