// Keeps the thread true to what the site has: after a break, and when another page asks.

import { fetchPart } from "./ids.js";

const STORED_AFTER_MS = 3000; // an answer whose process died is stored within this, or a few of it
const MOST_TRIES = 20;

export class Syncing {
  /** `onChange()` hears that answers have begun to be followed, or no longer are. */
  constructor({ page, thread, following, asking, urls, onChange }) {
    Object.assign(this, { page, thread, following, asking, urls, onChange });
    this.waiting = false; // the thread is to be fetched once nothing is on its way
  }

  /** Follows whatever is being written. */
  follow() {
    for (const answer of this.thread.streaming) this.following.join(answer);
    this.onChange();
  }

  reconnected() {
    this.following.resume();
    this.asking.resume();
    this.page.listed(this.page.conversation);
    // Frames about other pages' questions were missed.
    this.refresh();
  }

  /** Somebody asked: this page, or another page of the same person. */
  asked(frame) {
    if (frame.conversation !== this.page.conversation) this.page.listed(frame.conversation);
    else if (!frame.answers.every(({ id }) => this.thread.answer(id))) this.refresh();
  }

  refresh() {
    // What is on its way has no id yet: it would be shown twice.
    this.waiting = this.asking.pending.size > 0;
    if (!this.waiting && this.page.conversation) this.fetch();
  }

  /** Nothing is on its way any more. */
  settled() {
    if (this.waiting && !this.asking.pending.size) this.refresh();
  }

  async fetch() {
    const { conversation } = this.page;
    const part = await fetchPart(this.urls.thread(conversation));
    const fresh = part?.querySelector("#thread");
    if (!fresh || this.page.conversation !== conversation) return;
    if (this.asking.pending.size) this.waiting = true;
    else this.adopt(fresh);
  }

  adopt(fresh) {
    this.thread.adopt(fresh, (answer) => this.following.has(answer.dataset.answer));
    for (const id of this.following.ids) {
      if (!this.thread.answer(id)) this.following.leave(id);
    }
    this.follow();
  }

  /** Nothing is kept of an answer's frames: show it as it is stored, once it is. */
  async one(answer, tries = 0) {
    const part = await fetchPart(this.urls.answer(answer.dataset.answer));
    const fresh = part?.querySelector(".answer");
    if (!answer.isConnected) return;
    if (fresh && fresh.dataset.state !== "streaming") this.thread.replaceAnswer(answer, fresh);
    else if (tries < MOST_TRIES) setTimeout(() => this.one(answer, tries + 1), STORED_AFTER_MS);
    this.onChange();
  }
}
