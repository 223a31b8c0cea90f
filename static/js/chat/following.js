// Answers being written: what has been seen of each, acknowledged, and asked for after a break.

import { Waiting } from "./waiting.js";

const ACK_EVERY_FRAMES = 16;
const ACK_EVERY_MS = 250;

export class Following {
  /**
   * `send(frame)`; `make(element)` makes the Answer that is fed; `onFrame(element, frame, answer)`
   * hears each new frame after the answer has; `onGone(element)`: nothing is kept of it any more.
   */
  constructor({ send, make, onFrame, onGone }) {
    Object.assign(this, { send, make, onFrame, onGone });
    this.streams = new Map();
  }

  get size() {
    return this.streams.size;
  }

  get ids() {
    return [...this.streams.keys()];
  }

  has(id) {
    return this.streams.has(id);
  }

  elementOf(id) {
    return this.streams.get(id)?.element;
  }

  /** An answer that was asked for here: its frames come by themselves, from the first on. */
  begin(id, element, answer) {
    this.streams.set(id, stream(id, element, answer));
  }

  /** An answer that is shown but written elsewhere, or was before this page was loaded. */
  join(element) {
    const id = element.dataset.answer;
    if (this.has(id)) return;
    this.streams.set(id, stream(id, element, null));
    this.send({ type: "follow", answer: id, after: -1 });
  }

  /** Connected again: go on after the last frame seen. */
  resume() {
    for (const { id, seq } of this.streams.values()) {
      this.send({ type: "follow", answer: id, after: seq });
    }
  }

  receive(frame) {
    const found = this.streams.get(frame.answer);
    if (!found) return;
    if (frame.type === "answer.gone") {
      this.drop(found);
      this.onGone(found.element);
      return;
    }
    if (frame.seq !== found.seq + 1) {
      // Seen before; or one is missing, which the log has.
      if (frame.seq > found.seq) this.fill(found);
      return;
    }
    found.seq = frame.seq;
    this.feed(found, frame);
  }

  feed(found, frame) {
    if (!found.answer) {
      // What the page came with is as old as the page: the frames tell all of it anew.
      empty(found.element);
      found.answer = this.make(found.element);
    }
    found.answer.receive(frame);
    found.waiting.receive(frame);
    if (frame.type === "answer.finished") this.drop(found);
    else this.acknowledge(found);
    this.onFrame(found.element, frame, found.answer);
  }

  fill(found) {
    if (found.filling === found.seq) return;
    found.filling = found.seq; // asked for once
    this.send({ type: "follow", answer: found.id, after: found.seq });
  }

  acknowledge(found) {
    if (found.seq - found.acked >= ACK_EVERY_FRAMES) this.ack(found);
    else found.timer ??= setTimeout(() => this.ack(found), ACK_EVERY_MS);
  }

  ack(found) {
    clearTimeout(found.timer);
    found.timer = undefined;
    if (this.send({ type: "ack", answer: found.id, seq: found.seq })) found.acked = found.seq;
  }

  /** Hears no more of an answer that is no longer shown; it goes on all the same. */
  leave(id) {
    const found = this.streams.get(id);
    if (found) this.drop(found);
  }

  drop(found) {
    clearTimeout(found.timer);
    found.waiting.end();
    this.streams.delete(found.id);
  }
}

function stream(id, element, answer) {
  const waiting = new Waiting(element.querySelector(".answer-wait"));
  return { id, element, answer, waiting, seq: -1, acked: -1, timer: undefined, filling: null };
}

function empty(element) {
  for (const part of element.querySelectorAll(".answer-body, .answer-notices, .answer-sources")) {
    part.replaceChildren();
  }
}
