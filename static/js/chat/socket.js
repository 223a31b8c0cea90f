// The websocket: connects, says hello, notices that it is dead, and comes back after a break.

const VERSION = 2;
const PONG_WITHIN_MS = 10_000;
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
    addEventListener("online", () => this.wake());
    // No message says so when a network goes; waiting for the next ping would take half a minute.
    addEventListener("offline", () => this.socket && this.lost(this.socket, 1006));
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.wake();
    });
  }

  connect() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.handlers.onState("connecting");
    const socket = new WebSocket(this.url);
    this.socket = socket;
    socket.addEventListener("message", (event) => {
      if (socket === this.socket) this.receive(event.data);
    });
    socket.addEventListener("close", (event) => this.lost(socket, event.code));
  }

  receive(text) {
    clearTimeout(this.deadline);
    this.deadline = undefined;
    const frame = JSON.parse(text);
    if (frame.type === "hello") {
      this.attempt = 0;
      this.ready = true;
      clearInterval(this.pinging);
      this.pinging = setInterval(() => this.ping(), (frame.ping_s ?? 25) * 1000);
      this.handlers.onState("open");
    } else if (frame.type !== "pong") {
      this.handlers.onFrame(frame);
    }
  }

  /** A connection can be dead without saying so: after a ping something has to come. */
  ping() {
    this.send({ type: "ping" });
    const { socket } = this;
    this.deadline ??= setTimeout(() => this.lost(socket, 1006), PONG_WITHIN_MS);
  }

  lost(socket, code) {
    if (socket !== this.socket) return; // given up before
    clearInterval(this.pinging);
    clearTimeout(this.deadline);
    this.deadline = undefined;
    this.socket = undefined;
    this.ready = false;
    socket.close();
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

  /** The network or the reader is back: try at once, or see whether the connection lives. */
  wake() {
    if (this.timer !== undefined) this.connect();
    else if (this.ready) this.ping();
  }

  /** Sends a frame; false where there is no connection. */
  send(frame) {
    if (!this.ready) return false;
    this.socket.send(JSON.stringify({ v: VERSION, ...frame }));
    return true;
  }
}
