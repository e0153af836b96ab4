/** The Log tab: events as sentences. Appended in batches; the view stays put once a person has scrolled up. */

import { OUTCOMES, durationUs } from "../format.js";
import { el, fill, icon } from "../shared/dom.js";
import { clock, ratioWithInterval, signed } from "../shared/figures.js";

const FLUSH_EVERY = 100;
const SHOWN = 1000;

export class LogPane {
  constructor(root, store) {
    this.store = store;
    this.visible = false;
    this.shownSeq = 0;
    this.firstSeq = null;
    this.atEnd = true;
    this.list = el("ol", { class: "log-list", tabindex: "0", "aria-label": "Events" });
    this.toEnd = el(
      "button",
      { type: "button", class: "btn btn-sm log-to-end", hidden: true, onclick: () => this.scrollToEnd() },
      icon("arrow-down"),
      "Newest",
    );
    fill(root, this.list, this.toEnd);
    this.list.addEventListener("scroll", () => this.noticeScroll());
    let timer = null;
    store.on(["events"], () => {
      if (!this.visible) return;
      timer ??= setTimeout(() => {
        timer = null;
        this.flush();
      }, FLUSH_EVERY);
    });
  }

  show() {
    this.visible = true;
    this.flush();
  }

  hide() {
    this.visible = false;
  }

  flush() {
    const log = this.store.log;
    if (log.length && log[0].seq !== this.firstSeq && this.shownSeq < log[0].seq + SHOWN && this.firstSeq !== null && log[0].seq < this.firstSeq) {
      fill(this.list); // older rows were put in front
      this.shownSeq = 0;
    }
    this.firstSeq = log.length ? log[0].seq : null;
    const fresh = log.filter((event) => event.seq > this.shownSeq).slice(-SHOWN);
    if (fresh.length === 0) {
      if (log.length === 0) fill(this.list, el("li", { class: "log-empty" }, "Nothing has happened yet."));
      return;
    }
    this.list.querySelector(".log-empty")?.remove();
    this.list.append(...fresh.map((event) => line(event, this.store)));
    while (this.list.children.length > SHOWN) this.list.firstChild.remove();
    this.shownSeq = fresh.at(-1).seq;
    if (this.atEnd) this.scrollToEnd();
  }

  noticeScroll() {
    const gap = this.list.scrollHeight - this.list.clientHeight - this.list.scrollTop;
    this.atEnd = gap < 24;
    this.toEnd.hidden = this.atEnd;
  }

  scrollToEnd() {
    this.list.scrollTop = this.list.scrollHeight;
    this.noticeScroll();
  }
}

function line(event, store) {
  const { step, text, tone } = sentence(event, store);
  return el(
    "li",
    { class: tone ? `log-line log-${tone}` : "log-line", dataset: { seq: event.seq, kind: event.kind } },
    el("time", { class: "log-time", datetime: event.at }, clock(event.at)),
    el("span", { class: "log-step" }, step ? `step ${step}` : "run"),
    el("span", { class: "log-text" }, text),
  );
}

function sentence({ kind, payload }, store) {
  const words = SENTENCES[kind]?.(payload) ?? { text: payload.text ?? kind };
  return { step: payload.index ?? payload.step?.index ?? store.indexOf(payload.step), ...words };
}

const SENTENCES = {
  "run.status": (p) => ({
    text: `Run ${p.status}${p.request ? `, asked to ${p.request}` : ""}${p.error ? `: ${p.error}` : ""}`,
    tone: p.status === "failed" ? "bad" : "strong",
  }),
  "step.started": () => ({ text: "Started", tone: "strong" }),
  "step.stage": (p) => ({ text: `Next: ${p.stage}` }),
  "step.direction": (p) => ({
    text: `Direction: ${p.direction?.title}${p.probability ? ` (probability ${p.probability.toFixed(2)})` : ""}`,
  }),
  "step.strategy": (p) => ({ text: `Strategy: ${p.strategy?.title ?? "none"}${p.reason ? `. ${p.reason}` : ""}` }),
  "candidate.written": (p) => ({ text: `Plan written, attempt ${p.attempt + 1}${p.of ? ` of at most ${p.of + 1}` : ""} (${p.language})` }),
  "evaluation.phase": (p) => ({ text: `${p.kind === "confirm" ? "Confirmation: " : "Evaluation: "}${p.phase}` }),
  "evaluation.done": (p) => ({
    text: [
      p.kind === "confirm" ? "Confirmed:" : "Verdict:",
      outcomeLabel(p.outcome),
      p.time_us ? durationUs(p.time_us) : "",
      p.speedup ? ratioWithInterval(p.speedup, p.speedup_low, p.speedup_high) : "",
      p.message,
    ]
      .filter(Boolean)
      .join(" "),
    tone: p.verdict === "correct" ? "" : "bad",
  }),
  "step.repair": (p) => ({ text: `Repair ${p.attempt} of ${p.of}: ${p.reason ?? ""}`, tone: "bad" }),
  "memory.updated": (p) => ({ text: memorySentence(p.change) }),
  "run.best": (p) => ({ text: `New best: ${ratioWithInterval(p.speedup, p.speedup_low, p.speedup_high)}`, tone: "good" }),
  "candidate.reverified": (p) => ({ text: `Judged again by checker ${p.checker}: ${p.sentence}`, tone: p.refuted_by ? "bad" : "" }),
  "step.finished": (p) => ({ text: `Finished: ${outcomeLabel(p.step?.outcome) || "no verdict"}`, tone: "strong" }),
  log: (p) => ({ text: p.text }),
};

function outcomeLabel(key) {
  return OUTCOMES[key]?.[0].toLowerCase() ?? key;
}

function memorySentence(change) {
  const parts = ["direction", "strategy", "edge"]
    .filter((part) => change?.[part]?.before && change[part].after)
    .map((part) => `${part} ${signed(change[part].before.utility)} to ${signed(change[part].after.utility)} (n=${change[part].after.n})`);
  return parts.length ? `Memory updated: ${parts.join(", ")}` : "Memory left unchanged";
}
