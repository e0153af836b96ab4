/** The State tab: what this step's decisions read, grouped, in words and with units. */

import { OUTCOMES, durationUs, ratio, sizeBytes } from "../format.js";
import { el, notice, table } from "../shared/dom.js";
import { count, percent, signed, words } from "../shared/figures.js";
import { stepDetail } from "./detail.js";
import { Pane } from "./pane.js";

/** Facts by group; what is in none comes last. */
const GROUPS = [
  ["Computation", ["family", "dtype", "rows", "row_length", "elements", "has_reduction", "has_softmax", "has_moments", "has_broadcast", "transcendental", "small", "divisible"]],
  ["Current plan", ["has_plan", "bottleneck", "bandwidth_fraction", "flop_fraction", "launches", "kernels", "fused", "uses_library"]],
  ["Schedule", ["vector_width", "items_per_thread", "block_size", "row_strategy", "streaming", "fast_math"]],
  ["Compiler report", ["occupancy", "registers", "spill_bytes", "shared_bytes"]],
  ["Search", ["step_index", "steps_left", "last_direction", "last_verdict", "failures_in_a_row", "device_kind"]],
];
const SHOW = {
  bandwidth_fraction: (value) => `${percent(value)} of peak`,
  flop_fraction: (value) => `${percent(value)} of peak`,
  occupancy: percent,
  spill_bytes: sizeBytes,
  shared_bytes: sizeBytes,
  bytes: sizeBytes,
  params_count: count,
  flops: (value) => `${count(value)} FLOP`,
  floor_us: durationUs,
  eager_us: durationUs,
  compile_us: durationUs,
  time_us: durationUs,
  speedup: ratio,
  floor: String,
  bottleneck: (value) => (value.includes(" ") ? value : value.replaceAll("_", " ")),
  last_verdict: (value) => OUTCOMES[value]?.[0].toLowerCase() ?? value,
};
const LABELS = {
  floor_us: "Roofline floor",
  eager_us: "Eager time",
  compile_us: "torch.compile time",
  time_us: "Time",
  bytes: "Bytes moved",
  flops: "Work",
  params_count: "Parameters",
  device_key: "Device",
  speedup: "Over eager",
  source: "Made by",
  floor: "Distance from the floor",
  preset: "Sizes",
};
const HIDDEN = new Set(["candidate", "name", "inputs", "outputs", "step"]);

export class StatePane {
  constructor(root, store, urls) {
    this.store = store;
    this.urls = urls;
    this.pane = new Pane(root, () => this.draw());
  }

  show() {
    const step = this.store.current;
    this.pane.show(step ? `${step.id}|${step.stage === "summarise"}` : "none");
  }

  async draw() {
    const step = this.store.current;
    if (!step) return notice("The first step has not begun.", { symbol: "hourglass" });
    const { state } = await stepDetail(this.store, this.urls, step);
    if (!state?.facts) return notice("The state is not summarised yet.", { symbol: "hourglass" });
    return [
      el("div", { class: "fact-groups" }, operatorGroup(state.operator ?? {}), bestGroup(state.best ?? {}), lastGroup(state.last), ...factGroups(state.facts)),
      recent(state.recent ?? []),
    ];
  }
}

function factGroups(facts) {
  const grouped = new Set(GROUPS.flatMap(([, names]) => names));
  const rest = Object.keys(facts).filter((name) => !grouped.has(name));
  return [...GROUPS, ["Other", rest]].map(([title, names]) =>
    group(title, Object.fromEntries(names.filter((name) => name in facts).map((name) => [name, facts[name]]))),
  );
}

function operatorGroup(operator) {
  const shapes = (tensors) => (tensors ?? []).map(tensorText).join(", ");
  return group("Operator", {
    ...(operator.inputs ? { Inputs: shapes(operator.inputs) } : {}),
    ...(operator.outputs ? { Outputs: shapes(operator.outputs) } : {}),
    ...operator,
  });
}

/** The plan that this step edits, with what its evaluation showed of the device's use. */
function bestGroup({ peaks, kernels, ...best }) {
  const reached = (peaks ?? []).map(({ name, achieved, share }) => [name, share === null ? achieved : `${achieved}, ${percent(share)} of peak`]);
  return group("Best plan before this step", { ...best, ...Object.fromEntries(reached), ...(kernels?.length ? { Kernels: kernels.join("; ") } : {}) });
}

function lastGroup(last) {
  if (!last) return null;
  const { step, outcome, message, check } = last;
  return group(`Step ${step} before it`, {
    Verdict: OUTCOMES[outcome]?.[0] ?? outcome,
    Reason: message,
    ...(check ? { "Failed check": check.detail && check.detail !== message ? `${words(check.name)}: ${check.detail}` : words(check.name) } : {}),
  });
}

/** {"name": "x", "shape": [512, 64], "dtype": "float32"} as "x (512 × 64) float32". */
function tensorText({ name, shape, dtype, kind }) {
  const size = Array.isArray(shape) ? `(${shape.join(" × ")})` : kind;
  return [name, size, dtype].filter(Boolean).join(" ");
}

function group(title, facts) {
  const rows = Object.entries(facts).filter(([name, value]) => !HIDDEN.has(name) && value !== null && value !== undefined && value !== "");
  if (rows.length === 0) return null;
  return el(
    "section",
    { class: "fact-group" },
    el("h3", { class: "pane-heading" }, title),
    table(title, ["Fact", "Value"], rows.map(([name, value]) => [LABELS[name] ?? words(name), { value: shown(name, value), class: "num" }]), {
      className: "fact-table",
    }),
  );
}

function shown(name, value) {
  if (SHOW[name]) return SHOW[name](value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return Number.isInteger(value) ? count(value) : Number(value.toPrecision(3)).toString();
  if (Array.isArray(value)) return value.join(", ");
  return /^[A-Z]/.test(name) || name === "device_key" || name === "source" ? String(value) : String(value).replaceAll("_", " ");
}

function recent(rows) {
  if (rows.length === 0) return null;
  const num = (value) => ({ value, class: "num" });
  return el(
    "section",
    { class: "eval-section" },
    el("h3", { class: "pane-heading" }, "Steps before this one"),
    table(
      "Steps before this one",
      [num("Step"), "Direction", "Strategy", "Verdict", num("Over eager"), num("Utility")],
      rows.map((row) => [
        num(row.index),
        words(row.direction ?? ""),
        words(row.strategy ?? ""),
        OUTCOMES[row.outcome]?.[0] ?? row.outcome,
        num(ratio(row.speedup)),
        num(signed(row.utility)),
      ]),
    ),
  );
}
