/** The Diff tab: this step's plan against its parent, the best so far, the first correct one, or PyTorch. */

import { durationUs } from "../format.js";
import { el, fill, icon, notice } from "../shared/dom.js";
import { ratioWithInterval } from "../shared/figures.js";
import { get } from "../shared/rest.js";
import { chosenCandidate, stepDetail } from "./detail.js";
import { Pane } from "./pane.js";

const AGAINST = [
  ["parent", "Parent"],
  ["best", "Best"],
  ["start", "Start"],
  ["pytorch", "PyTorch"],
];
const STYLE_KEY = "htam.diff.sideBySide";

export class DiffPane {
  constructor(root, store, urls) {
    this.store = store;
    this.urls = urls;
    this.against = "parent";
    this.sideBySide = localStorage.getItem(STYLE_KEY) === "1";
    this.body = el("div", { class: "diff-body" });
    this.toolbar = el("div", { class: "pane-toolbar" });
    fill(root, this.toolbar, this.body);
    this.pane = new Pane(this.body, () => this.draw());
  }

  show() {
    this.drawToolbar();
    const step = this.store.current;
    const version = step ? `${step.id}|${step.stage}|${step.attempts ?? ""}|${step.outcome}` : "none";
    const best = this.against === "best" ? this.store.run.best_candidate : "";
    this.pane.show(`${version}|${this.against}|${best}|${this.sideBySide}`);
  }

  drawToolbar() {
    const choice = (key, label) =>
      el(
        "button",
        {
          type: "button",
          class: `btn btn-sm${key === this.against ? " active" : ""}`,
          "aria-pressed": String(key === this.against),
          dataset: { against: key },
          onclick: () => this.choose({ against: key }),
        },
        label,
      );
    fill(
      this.toolbar,
      el("span", { class: "toolbar-label" }, "Against"),
      el("div", { class: "btn-group", role: "group", "aria-label": "Compare against" }, ...AGAINST.map(([k, l]) => choice(k, l))),
      el(
        "button",
        {
          type: "button",
          class: "btn btn-sm ms-auto",
          "aria-pressed": String(this.sideBySide),
          onclick: () => this.choose({ sideBySide: !this.sideBySide }),
        },
        icon(this.sideBySide ? "layout-rows" : "layout-columns"),
        this.sideBySide ? "Unified" : "Side by side",
      ),
    );
  }

  choose(change) {
    Object.assign(this, change);
    localStorage.setItem(STYLE_KEY, this.sideBySide ? "1" : "0");
    this.show();
  }

  async draw() {
    const step = this.store.current;
    if (!step) return notice("The first step has not begun.", { symbol: "hourglass" });
    const detail = await stepDetail(this.store, this.urls, step);
    const chosen = chosenCandidate(detail);
    if (!chosen) return notice(nothingWritten(step), { symbol: "file-code" });
    const diff = await get(`${this.urls.diff(chosen.id)}?against=${this.against}`);
    const heading = el(
      "div",
      { class: "diff-heading" },
      el("span", { class: "diff-side before" }, diff.before_label),
      icon("arrow-right"),
      el("span", { class: "diff-side after" }, diff.after_label),
      metric(step),
    );
    const note = chosen.note ? el("p", { class: "proposer-note" }, chosen.note) : null;
    if (!diff.unified?.trim()) return [heading, note, notice("The two are the same, line for line.", { symbol: "equal" })];
    return [heading, note, this.rendered(diff.unified)];
  }

  rendered(unified) {
    const host = el("div", { class: "diff-rendered" });
    new window.Diff2HtmlUI(host, withPlainHeader(unified), {
      drawFileList: false,
      fileListToggle: false,
      fileContentToggle: false,
      matching: "lines",
      outputFormat: this.sideBySide ? "side-by-side" : "line-by-line",
      highlight: true,
      synchronisedScroll: true,
      stickyFileHeaders: false,
      colorScheme: "light", // its colours are variables of ours, which follow the theme
    }).draw();
    return host;
  }
}

/** The same hunks under a fixed file name: labels are ours to show, and the ending picks the highlighter. */
function withPlainHeader(unified) {
  const lines = unified.split("\n");
  const first = lines.findIndex((line) => line.startsWith("@@"));
  return ["--- a/plan.cpp", "+++ b/plan.cpp", ...lines.slice(Math.max(0, first))].join("\n");
}

function metric(step) {
  if (step.speedup === null || step.speedup === undefined) return null;
  const time = step.time_us ? `${durationUs(step.time_us)}, ` : "";
  return el(
    "span",
    { class: "diff-metric num" },
    `${time}${ratioWithInterval(step.speedup, step.speedup_low, step.speedup_high)} over eager`,
  );
}

function nothingWritten(step) {
  if (step.outcome === "no_proposal") return "The proposer had no plan for this strategy.";
  if (step.stage === "done") return "This step ended before a plan was written.";
  return "The plan is not written yet.";
}
