/**
 * Keeps a store in step with its run: a websocket with a cursor, reconnected with backoff; REST by the same cursor
 * while no socket stands. Either way a row is neither lost nor applied twice.
 */

import { get } from "../shared/rest.js";

const FIRST_DELAY = 500;
const LONGEST_DELAY = 15000;
const POLL_EVERY = 2000;
const BATCH = 500;
const REFUSED = new Set([4401, 4403, 4404]);
const REASONS = {
  4401: "Your session has ended; sign in again.",
  4403: "You may not watch this run any more.",
  4404: "This run does not exist.",
};

export class LiveFeed {
  constructor(store, { socketPath, eventsUrl }) {
    this.store = store;
    this.socketPath = socketPath;
    this.eventsUrl = eventsUrl;
    this.failures = 0;
    this.refusal = "";
    this.socket = null;
    this.timer = null;
    this.poller = null;
    this.catchingUp = null;
  }

  start() {
    this.connect();
    window.addEventListener("pagehide", () => this.stop());
    window.addEventListener("online", () => this.retryNow());
    document.addEventListener("visibilitychange", () => !document.hidden && this.retryNow());
  }

  stop() {
    clearTimeout(this.timer);
    clearInterval(this.poller);
    this.poller = null;
    const socket = this.socket;
    this.socket = null;
    socket?.close(1000);
  }

  connect() {
    clearTimeout(this.timer);
    this.report(this.failures ? "reconnecting" : "connecting");
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}${this.socketPath}?after=${this.store.cursor}`);
    this.socket = socket;
    socket.onmessage = ({ data }) => this.socket === socket && this.receive(socket, JSON.parse(data));
    socket.onclose = (event) => this.socket === socket && this.closed(event);
  }

  async receive(socket, message) {
    if (message.type === "refused") {
      this.refusal = message.reason;
      return;
    }
    if (message.type !== "events") return;
    this.failures = 0;
    this.refusal = "";
    this.stopPolling();
    if (this.store.connection.state !== "open") this.report("open");
    if (!this.store.apply(message.events)) await this.catchUp();
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ ack: this.store.cursor }));
  }

  closed(event) {
    this.socket = null;
    if (REFUSED.has(event.code)) this.refusal ||= REASONS[event.code];
    this.failures += 1;
    this.startPolling();
    this.report(this.refusal ? "refused" : "reconnecting");
    const delay = Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** (this.failures - 1));
    this.timer = setTimeout(() => this.connect(), (this.refusal ? LONGEST_DELAY : delay) * (0.75 + Math.random() / 2));
  }

  retryNow() {
    if (this.socket || this.refusal) return;
    this.connect();
  }

  startPolling() {
    this.poller ??= setInterval(() => this.catchUp(), POLL_EVERY);
    this.catchUp();
  }

  stopPolling() {
    clearInterval(this.poller);
    this.poller = null;
  }

  /** Fetch by REST whatever lies after the cursor. One request at a time. */
  catchUp() {
    this.catchingUp ??= this.fetchMissing().finally(() => (this.catchingUp = null));
    return this.catchingUp;
  }

  async fetchMissing() {
    try {
      for (;;) {
        const { events } = await get(`${this.eventsUrl}?after=${this.store.cursor}&limit=${BATCH}`);
        this.store.apply(events);
        if (events.length < BATCH) break;
      }
      if (this.poller && !this.socket) this.report("polling");
    } catch (error) {
      if (error.status === 401 || error.status === 403) {
        this.refusal ||= error.message;
        this.stopPolling();
        this.report("refused");
      }
    }
  }

  report(state) {
    document.body.dataset.wsState = state;
    this.store.setConnection(state, this.refusal);
  }
}
