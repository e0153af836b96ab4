/** The time slider: the graph as any change left it. The newest end is now; every other place is read-only. */

import { relativeTime } from "../format.js";
import { el, fill } from "../shared/dom.js";
import { get } from "../shared/rest.js";

const WAIT_MS = 150;

export class TimeSlider {
  /** `onMoment(id)`: the id of a change, or null for now. The chosen moment stands in the address as `at`. */
  constructor(root, bank, onMoment) {
    Object.assign(this, { root, bank, onMoment });
    this.at = Number(new URLSearchParams(location.search).get("at")) || null;
  }

  async start() {
    try {
      this.ticks = (await get(`/api/banks/${this.bank}/timeline/`)).changes;
    } catch {
      return;
    }
    this.slider = el("input", { type: "range", class: "form-range", id: "moment", min: 0, max: this.ticks.length, step: 1, "aria-label": "The graph at a moment of its history" });
    this.words = el("span", { class: "moment-words", id: "moment-words" });
    this.slider.addEventListener("input", () => this.move());
    const known = this.ticks.findIndex((tick) => tick.id === this.at);
    this.slider.value = known < 0 ? this.ticks.length : known;
    if (known < 0) this.at = null;
    fill(this.root, el("label", { class: "muted", for: "moment" }, "Time"), this.slider, this.words);
    this.root.hidden = this.ticks.length === 0;
    this.describe();
  }

  /** A change was made: now lies behind it. */
  async grow() {
    if (this.at === null) await this.start();
  }

  move() {
    this.at = this.ticks[Number(this.slider.value)]?.id ?? null;
    this.describe();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.settle(), WAIT_MS);
  }

  settle() {
    const url = new URL(location.href);
    if (this.at) url.searchParams.set("at", this.at);
    else url.searchParams.delete("at");
    history.replaceState(null, "", url);
    this.onMoment(this.at);
  }

  describe() {
    const tick = this.ticks.find((row) => row.id === this.at);
    document.body.classList.toggle("is-past", Boolean(tick));
    if (!tick) return fill(this.words, "now");
    const who = tick.run ? `run ${tick.run}` : (tick.by ?? "the system");
    fill(this.words, `after ${tick.kind} by ${who}, `, relativeTime(tick.at), " ", el("a", { href: `/memory/${this.bank}/history/?change=${tick.id}` }, "open"));
  }
}
