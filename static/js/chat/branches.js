// Versions of a question or an answer: moving between them, and picking one of two compared.

import { fill, gettext } from "../i18n.js";
import { fetchPart } from "./ids.js";

/** What the controls of a message say: ids of its versions, and which of them this is, from 1. */
export function siblingsOf(controls) {
  const ids = (controls?.dataset.siblings ?? "").split(" ").filter(Boolean);
  return { ids, position: Number(controls?.dataset.position ?? 1) };
}

/** Shows which version a message is; nothing where it is the only one. */
export function describeBranches(controls, ids, position) {
  controls.dataset.siblings = ids.join(" ");
  controls.dataset.position = String(position);
  controls.hidden = ids.length < 2;
  controls.querySelector("[data-branch-place]").textContent = place(position, ids.length);
  controls.querySelector('[data-branch="-1"]').disabled = position < 2;
  controls.querySelector('[data-branch="1"]').disabled = position >= ids.length;
}

export class Branches {
  /** `url()` is where a branch is chosen; `onThread(fresh)` shows the thread that comes back. */
  constructor({ url, headers, onThread, onRefused }) {
    Object.assign(this, { url, headers, onThread, onRefused });
  }

  /** One version further, or back; the focus goes along. Answers what to tell about it. */
  async step(button) {
    const controls = button.closest(".branches");
    const { ids, position } = siblingsOf(controls);
    const to = position + Number(button.dataset.branch);
    const message = ids[to - 1];
    if (!message || !(await this.show(message))) return "";
    const shown = controlsOf(message);
    const same = shown?.querySelector(`[data-branch="${button.dataset.branch}"]`);
    (same?.disabled ? shown.querySelector("[data-branch]:not(:disabled)") : same)?.focus();
    return place(to, ids.length);
  }

  /** Shows the branch that a message is on. Answers whether that could be done. */
  async show(message) {
    const body = new URLSearchParams({ message });
    const part = await fetchPart(this.url(), { method: "POST", body, headers: this.headers() });
    const thread = part?.querySelector("#thread");
    if (thread) this.onThread(thread);
    else this.onRefused(gettext("That version could not be opened. Try again in a moment."));
    return Boolean(thread);
  }
}

function controlsOf(message) {
  const all = [...document.querySelectorAll("#thread .branches")];
  return all.find((each) => {
    const { ids, position } = siblingsOf(each);
    return ids[position - 1] === message && each.offsetParent;
  });
}

const place = (position, count) =>
  fill(gettext("%(position)s of %(count)s"), { position, count });
