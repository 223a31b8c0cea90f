// The websocket: connects, says hello, keeps alive, and comes back after a break.

const VERSION = 2;
const PING_EVERY_MS = 25_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 15_000;
// Closed by the server for good: signed out, or no longer a member.
const FINAL_CODES = new Set([4401, 4403]);

export class Socket {
  /** `handlers`: onFrame(frame), onState("connecting" | "open" | "offline" | "closed", code). */
  constructor(path, handlers) {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.url = `${scheme}//${location.host}${path}`;
    this.handlers = handlers;
    this.attempt = 0;
    this.ready = false;
    addEventListener("online", () => this.retryNow());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.retryNow();
    });
  }

  connect() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.handlers.onState("connecting");
    const socket = new WebSocket(this.url);
    this.socket = socket;
    socket.addEventListener("message", (event) => this.receive(event.data));
    socket.addEventListener("close", (event) => this.lost(event.code));
  }

  receive(text) {
    const frame = JSON.parse(text);
    if (frame.type === "hello") {
      this.attempt = 0;
      this.ready = true;
      this.ping = setInterval(() => this.send({ type: "ping" }), PING_EVERY_MS);
      this.handlers.onState("open");
    } else if (frame.type !== "pong") {
      this.handlers.onFrame(frame);
    }
  }

  lost(code) {
    clearInterval(this.ping);
    this.ready = false;
    if (FINAL_CODES.has(code)) {
      this.handlers.onState("closed", code);
      return;
    }
    this.handlers.onState("offline");
    // Jitter, so that a restarted site is not met by everybody at once.
    const ceiling = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.attempt);
    this.attempt += 1;
    this.timer = setTimeout(() => this.connect(), ceiling * (0.5 + Math.random() / 2));
  }

  retryNow() {
    if (this.timer !== undefined) this.connect();
  }

  /** Sends a frame; false where there is no connection. */
  send(frame) {
    if (!this.ready) return false;
    this.socket.send(JSON.stringify({ v: VERSION, ...frame }));
    return true;
  }
}
