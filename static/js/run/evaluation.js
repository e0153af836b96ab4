/** The Evaluation tab: one verdict with everything that was looked at, and the second verdicts beside it. */

import { durationUs, outcomeBadge, sizeBytes, speedup } from "../format.js";
import { el, icon, notice, table } from "../shared/dom.js";
import { percent, words } from "../shared/figures.js";
import { checksTable } from "./checks.js";
import { chosenCandidate, evaluation, stepDetail } from "./detail.js";
import { attemptPicker } from "./kernel.js";
import { refutedMark } from "./marks.js";
import { Pane } from "./pane.js";
import { reverifyPart } from "./reverify.js";
import { samplesPlot } from "./samples.js";

const KINDS = { first: "First measurement", confirm: "Confirmation in a fresh runner", reverify: "Re-verification" };

export class EvaluationPane {
  constructor(root, store, urls, mayOperate) {
    this.store = store;
    this.urls = urls;
    this.mayOperate = mayOperate;
    this.attempt = null;
    this.chosen = null; // id of the evaluation that a person chose, else the newest that counts
    this.pane = new Pane(root, () => this.draw());
  }

  show() {
    const step = this.store.current;
    const version = step
      ? `${step.id}|${step.stage}|${step.attempts ?? ""}|${step.outcome}|${step.speedup ?? ""}|${step.judged_again ?? ""}`
      : "none";
    this.pane.show(`${version}|${this.attempt}|${this.chosen}|${this.asked ?? ""}`);
  }

  choose(change) {
    Object.assign(this, change);
    this.show();
  }

  async draw() {
    const step = this.store.current;
    if (!step) return notice("The first step has not begun.", { symbol: "hourglass" });
    const detail = await stepDetail(this.store, this.urls, step);
    const candidate = detail.candidates?.find((item) => item.id === this.attempt) ?? chosenCandidate(detail);
    const rows = candidate?.evaluations ?? [];
    const row = rows.find((item) => item.id === this.chosen) ?? rows.findLast((item) => item.kind !== "reverify") ?? rows.at(-1);
    const pickers = this.pickers(detail, candidate, rows, row);
    if (!row) return [pickers, notice(step.message || "Nothing is evaluated yet.", { symbol: "hourglass" })];
    const [full, again] = await Promise.all([evaluation(this.urls, row.id), reverifyPart(this, candidate, row)]);
    return [pickers, ...report(full, candidate, again)];
  }

  pickers(detail, chosen, rows, row) {
    const attempts = detail.candidates?.length > 1 ? attemptPicker(detail.candidates, chosen.id, (id) => this.choose({ attempt: id, chosen: null })) : null;
    const kinds = rows.length > 1
      ? el(
          "div",
          { class: "btn-group", role: "group", "aria-label": "Measurement" },
          ...rows.map((item) =>
            el(
              "button",
              { type: "button", class: `btn btn-sm${item === row ? " active" : ""}`, "aria-pressed": String(item === row), title: KINDS[item.kind], onclick: () => this.choose({ attempt: chosen.id, chosen: item.id }) },
              item.kind === "reverify" ? `Checker ${item.checker}` : words(item.kind),
            ),
          ),
        )
      : null;
    return attempts || kinds ? el("div", { class: "pane-toolbar" }, attempts, kinds) : null;
  }
}

function report(full, candidate, again) {
  const result = full.result ?? {};
  const reading = full.reading ?? {};
  return [
    verdictLine(full, candidate, result, reading),
    section("Judged again", again),
    section("Time", timeBars(result, reading)),
    section("Share of the device's peaks", peakBars(reading)),
    section("Samples", [samplesPlot(result), reading.spread ? el("p", { class: "eval-note" }, reading.spread) : null]),
    section("Checks", checksTable(result.checks ?? [])),
    section("Compiler report", kernelTable(result.kernels ?? [])),
    section("Compiler log", result.compiler_log ? el("pre", { class: "code-block log-block", tabindex: "0" }, result.compiler_log) : null),
    section("Conditions", conditions(reading)),
    section("How it was judged", facts(full, reading)),
  ];
}

function section(title, content) {
  const empty = content === null || (Array.isArray(content) && content.every((part) => part === null));
  return empty ? null : el("section", { class: "eval-section" }, el("h3", { class: "pane-heading" }, title), content);
}

function verdictLine(full, candidate, result, reading) {
  return el(
    "div",
    { class: "verdict-line" },
    outcomeBadge(full.outcome),
    full.speedup ? speedup(full.speedup, full.speedup_low, full.speedup_high) : null,
    full.speedup ? el("span", { class: "muted" }, "over eager") : null,
    result.untrusted ? el("span", { class: "refuted", title: "A foreign module: its own host code ran beside its kernels" }, icon("alert-triangle"), "untrusted host code") : null,
    candidate?.refuted_by ? el("p", { class: "verdict-mark" }, refutedMark(candidate.refuted_by)) : null,
    full.message ? el("p", { class: "verdict-message" }, full.message) : null,
    reading.bottleneck ? el("p", { class: "verdict-message", dataset: { bottleneck: result.bottleneck } }, reading.bottleneck) : null,
  );
}

/** Bars on one scale: eager, torch.compile, candidate, and the roofline floor below which no time is believed. */
function timeBars(result, reading) {
  const rows = [
    ["Eager", result.baseline?.median_us, "slower", result.baseline],
    ["torch.compile", result.compiled_baseline?.median_us, "correct", result.compiled_baseline],
    ["Candidate", result.candidate?.median_us, "faster", result.candidate],
    ["Roofline floor", result.floor_us, "live", null],
  ].filter(([, value]) => value);
  if (rows.length === 0) return null;
  const longest = Math.max(...rows.map(([, value]) => value));
  return el(
    "div",
    {},
    el(
      "div",
      { class: "time-bars", role: "list" },
      ...rows.map(([label, value, tone, timing]) =>
        el(
          "div",
          { class: "time-bar-row", role: "listitem" },
          el("span", { class: "time-bar-label" }, label),
          bar(value / longest, tone),
          el("span", { class: "num" }, durationUs(value)),
          el("span", { class: "num muted", title: "10th to 90th percentile of the timed calls" }, timing ? `${durationUs(timing.p10_us)} to ${durationUs(timing.p90_us)}` : ""),
        ),
      ),
    ),
    reading.floor ? el("p", { class: "eval-note" }, reading.floor.sentence) : null,
  );
}

function bar(share, tone) {
  return el("span", { class: "time-bar" }, el("i", { class: `tone-${tone}`, style: { width: `${Math.min(100, 100 * share)}%` } }));
}

/** Achieved bandwidth and rate against what the device could do at most. */
function peakBars(reading) {
  const rows = reading.peaks ?? [];
  if (rows.length === 0) return null;
  return el(
    "div",
    { class: "peak-rows", role: "list" },
    ...rows.map(({ name, achieved, peak, kind, share }) =>
      el(
        "div",
        { class: "peak-row", role: "listitem" },
        el("span", {}, name),
        share === null ? el("span", { class: "muted" }, "no peak known") : bar(share, "correct"),
        el("span", { class: "num" }, share === null ? "" : percent(share)),
        el("span", { class: "num muted", title: peak ? `The peak is ${kind}` : "The device tells no peak" }, peak ? `${achieved} of ${peak}` : achieved),
      ),
    ),
    rows.some(({ share }) => share > 1) ? el("p", { class: "eval-note" }, "More than the peak: the data stay in a cache between calls.") : null,
  );
}

function kernelTable(kernels) {
  if (kernels.length === 0) return null;
  const num = (value) => ({ value, class: "num" });
  const known = (value, show = String) => num(value === null || value === undefined ? "–" : show(value));
  return table(
    "Compiler report of each kernel",
    ["Kernel", "Matters", num("Launches"), num("Grid"), num("Block"), num("Registers"), num("Spills"), num("Shared"), num("Occupancy")],
    kernels.map((kernel) => [
      el("code", {}, kernel.name),
      matters(kernel.matters),
      num(kernel.launches),
      num(kernel.grid.join(" × ")),
      num(kernel.block.join(" × ")),
      known(kernel.registers),
      { value: kernel.spill_bytes === null || kernel.spill_bytes === undefined ? "–" : sizeBytes(kernel.spill_bytes), class: kernel.spill_bytes ? "num eval-warning" : "num" },
      known(kernel.shared_bytes, sizeBytes),
      known(kernel.occupancy, percent),
    ]),
    { className: "kernel-table" },
  );
}

function matters(value) {
  if (value === true) return el("span", { title: "Without its launches the outputs are wrong" }, "yes");
  if (value === false) return el("span", { class: "eval-warning", title: "Without its launches the outputs are the same" }, "no");
  return el("span", { class: "muted", title: "Nobody tried to leave its launches out" }, "not tried");
}

function conditions(reading) {
  const rows = reading.conditions ?? [];
  if (rows.length === 0) return null;
  const num = (value) => ({ value: value || "–", class: "num" });
  return el(
    "div",
    {},
    table("Conditions around the timing", ["", num("Before"), num("After")], rows.map(({ name, before, after }) => [name, num(before), num(after)]), { className: "conditions-table" }),
    reading.disturbance ? el("p", { class: "eval-note eval-warning" }, icon("alert-triangle"), reading.disturbance) : null,
  );
}

function facts(full, reading) {
  const rows = [["Measurement", KINDS[full.kind] ?? full.kind], ...(reading.facts ?? []).map(({ name, text }) => [name, text])];
  return el("dl", { class: "htam-facts" }, ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}
