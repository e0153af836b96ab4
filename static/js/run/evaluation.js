/** The Evaluation tab: one verdict with everything that was looked at. */

import { durationUs, outcomeBadge, significant, sizeBytes, speedup } from "../format.js";
import { el, icon, notice, table } from "../shared/dom.js";
import { percent, seconds, words } from "../shared/figures.js";
import { chosenCandidate, evaluation, stepDetail } from "./detail.js";
import { attemptPicker } from "./kernel.js";
import { Pane } from "./pane.js";
import { samplesPlot } from "./samples.js";

const KINDS = { first: "First measurement", confirm: "Confirmation in a fresh runner", reverify: "Re-verification" };

export class EvaluationPane {
  constructor(root, store, urls) {
    this.store = store;
    this.urls = urls;
    this.attempt = null;
    this.kind = null;
    this.pane = new Pane(root, () => this.draw());
  }

  show() {
    const step = this.store.current;
    const version = step ? `${step.id}|${step.stage}|${step.attempts ?? ""}|${step.outcome}|${step.speedup ?? ""}` : "none";
    this.pane.show(`${version}|${this.attempt}|${this.kind}`);
  }

  choose(change) {
    Object.assign(this, change);
    this.show();
  }

  async draw() {
    const step = this.store.current;
    if (!step) return notice("The first step has not begun.", { symbol: "hourglass" });
    const detail = await stepDetail(this.store, this.urls, step);
    const chosen = detail.candidates?.find((item) => item.id === this.attempt) ?? chosenCandidate(detail);
    const rows = chosen?.evaluations ?? [];
    const row = rows.find((item) => item.kind === this.kind) ?? rows.at(-1);
    const pickers = this.pickers(detail, chosen, rows, row);
    if (!row) return [pickers, notice(step.message || "Nothing is evaluated yet.", { symbol: "hourglass" })];
    const full = await evaluation(this.urls, row.id);
    return [pickers, ...report(full)];
  }

  pickers(detail, chosen, rows, row) {
    const attempts = detail.candidates?.length > 1 ? attemptPicker(detail.candidates, chosen.id, (id) => this.choose({ attempt: id, kind: null })) : null;
    const kinds = rows.length > 1
      ? el(
          "div",
          { class: "btn-group", role: "group", "aria-label": "Measurement" },
          ...rows.map((item) =>
            el(
              "button",
              { type: "button", class: `btn btn-sm${item === row ? " active" : ""}`, "aria-pressed": String(item === row), title: KINDS[item.kind], onclick: () => this.choose({ attempt: chosen.id, kind: item.kind }) },
              words(item.kind),
            ),
          ),
        )
      : null;
    return attempts || kinds ? el("div", { class: "pane-toolbar" }, attempts, kinds) : null;
  }
}

function report(full) {
  const result = full.result ?? {};
  return [
    verdictLine(full, result),
    section("Time", timeBars(result)),
    section("Samples", samplesPlot(result)),
    section("Checks", checksTable(result.checks ?? [])),
    section("Compiler report", kernelTable(result.kernels ?? [])),
    section("Compiler log", result.compiler_log ? el("pre", { class: "code-block log-block", tabindex: "0" }, result.compiler_log) : null),
    section("How it was measured", conditions(full, result)),
  ];
}

function section(title, content) {
  return content ? el("section", { class: "eval-section" }, el("h3", { class: "pane-heading" }, title), content) : null;
}

function verdictLine(full, result) {
  return el(
    "div",
    { class: "verdict-line" },
    outcomeBadge(full.outcome),
    full.speedup ? speedup(full.speedup, full.speedup_low, full.speedup_high) : null,
    full.speedup ? el("span", { class: "muted" }, "over eager") : null,
    result.bottleneck && result.bottleneck !== "unknown" ? el("span", { class: "muted" }, `bound by ${result.bottleneck}`) : null,
    full.message ? el("p", { class: "verdict-message" }, full.message) : null,
  );
}

/** Bars on one scale: eager, torch.compile, candidate, and the roofline floor below which no time is believed. */
function timeBars(result) {
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
          el("span", { class: "time-bar" }, el("i", { class: `tone-${tone}`, style: { width: `${(100 * value) / longest}%` } })),
          el("span", { class: "num" }, durationUs(value)),
          el("span", { class: "num muted", title: "10th to 90th percentile of the timed calls" }, timing ? `${durationUs(timing.p10_us)} to ${durationUs(timing.p90_us)}` : ""),
        ),
      ),
    ),
    el("p", { class: "muted roofline-note" }, rooflineSentence(result)),
  );
}

function rooflineSentence(result) {
  const parts = [];
  const peak = result.device?.peak_bandwidth_gbs;
  const rate = result.device?.peak_fp32_gflops;
  if (result.floor_us && result.candidate?.median_us) {
    parts.push(`The floor is ${percent(result.floor_us / result.candidate.median_us)} of the candidate's time.`);
  }
  if (result.achieved_gbs) parts.push(`${significant(result.achieved_gbs)} GB/s achieved${peak ? `, ${percent(result.achieved_gbs / peak)} of the peak` : ""}.`);
  if (result.achieved_gflops) parts.push(`${significant(result.achieved_gflops)} GFLOP/s${rate ? `, ${percent(result.achieved_gflops / rate)} of the peak` : ""}.`);
  return parts.join(" ");
}

function checksTable(checks) {
  if (checks.length === 0) return null;
  return table(
    "Checks",
    ["Check", "Result", "Detail"],
    checks.map((check) => [
      words(check.name),
      check.passed
        ? el("span", { class: "check-pass" }, icon("check"), "passed")
        : el("span", { class: "check-fail" }, icon("x"), "failed"),
      el("span", {}, check.detail, numbers(check.numbers)),
    ]),
    { className: "checks-table" },
  );
}

function numbers(values) {
  const entries = Object.entries(values ?? {}).filter(([, value]) => value !== null);
  if (entries.length === 0) return null;
  const text = entries.map(([name, value]) => `${name.replaceAll("_", " ")} ${typeof value === "number" ? compact(value) : value}`).join(", ");
  return el("span", { class: "muted check-numbers" }, text);
}

function compact(value) {
  if (value === 0 || Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e6 ? value.toExponential(2) : significant(value);
}

function kernelTable(kernels) {
  if (kernels.length === 0) return null;
  const num = (value) => ({ value, class: "num" });
  const known = (value, show = String) => num(value === null || value === undefined ? "–" : show(value));
  return table(
    "Compiler report of each kernel",
    ["Kernel", num("Launches"), num("Grid"), num("Block"), num("Registers"), num("Spills"), num("Shared"), num("Occupancy")],
    kernels.map((kernel) => [
      el("code", {}, kernel.name),
      num(kernel.launches),
      num(kernel.grid.join(" × ")),
      num(kernel.block.join(" × ")),
      known(kernel.registers),
      known(kernel.spill_bytes, sizeBytes),
      known(kernel.shared_bytes, sizeBytes),
      known(kernel.occupancy, percent),
    ]),
    { className: "kernel-table" },
  );
}

function conditions(full, result) {
  const policy = result.policy ?? {};
  const versions = Object.entries(result.versions ?? {}).map(([name, version]) => `${name} ${version}`);
  const phases = Object.entries(result.phase_seconds ?? {}).map(([name, spent]) => `${name} ${seconds(spent)}`);
  const rows = [
    ["Measurement", KINDS[full.kind] ?? full.kind],
    ["Device", result.device?.name ?? full.device_key],
    ["Precision", policy.precision],
    ["Library calls", result.library_calls?.length ? result.library_calls.join(", ") : policy.library === "forbid" ? "forbidden" : "none used"],
    ["Protocol", policy.protocol],
    ["Sizes", policy.preset],
    ["Sandbox", result.sandbox],
    ["Seed", result.seed],
    ["Phases", phases.join(", ")],
    ["Versions", versions.join(", ")],
  ].filter(([, value]) => value !== undefined && value !== null && value !== "");
  return el("dl", { class: "htam-facts" }, ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]));
}
