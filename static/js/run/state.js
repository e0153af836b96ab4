/** The State tab: the facts that this step's decisions read, grouped and with units. */

import { durationUs, ratio, sizeBytes } from "../format.js";
import { el, notice, table } from "../shared/dom.js";
import { count, percent, words } from "../shared/figures.js";
import { stepDetail } from "./detail.js";
import { Pane } from "./pane.js";

const GROUPS = [
  ["Operator", ["family", "dtype", "rows", "row_length", "elements", "transcendental", "has_broadcast", "has_reduction", "has_softmax", "has_moments", "small", "divisible", "streaming"]],
  ["Device", ["device_kind", "device", "device_key"]],
  ["Current best", ["has_plan", "best_speedup", "best_us", "baseline_us", "bottleneck", "bandwidth_fraction", "flop_fraction", "launches", "kernels", "fused", "uses_library"]],
  ["Schedule", ["vector_width", "items_per_thread", "block_size", "row_strategy", "fast_math"]],
  ["Compiler report", ["occupancy", "registers", "spill_bytes", "shared_bytes"]],
  ["Search", ["step_index", "steps_left", "last_direction", "last_verdict", "failures_in_a_row"]],
];
const UNITS = {
  bandwidth_fraction: (v) => `${percent(v)} of peak`,
  flop_fraction: (v) => `${percent(v)} of peak`,
  occupancy: percent,
  spill_bytes: sizeBytes,
  shared_bytes: sizeBytes,
  best_us: durationUs,
  baseline_us: durationUs,
  floor_us: durationUs,
  eager_us: durationUs,
  best_speedup: ratio,
  speedup: ratio,
};

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
    const facts = flatten(state ?? {});
    if (facts.size === 0) return notice("The state is not summarised yet.", { symbol: "hourglass" });
    return sections(facts);
  }
}

/** One level of names; nested objects are joined by their inner name, lists of names become words. */
function flatten(state) {
  const facts = new Map();
  const walk = (object) => {
    for (const [name, value] of Object.entries(object)) {
      if (value !== null && typeof value === "object" && !Array.isArray(value)) walk(value);
      else facts.set(name, value);
    }
  };
  walk(state);
  return facts;
}

function sections(facts) {
  const grouped = new Set(GROUPS.flatMap(([, names]) => names));
  const rest = [...facts.keys()].filter((name) => !grouped.has(name));
  return el(
    "div",
    { class: "fact-groups" },
    ...[...GROUPS, ["Other", rest]].map(([title, names]) => group(title, names.filter((name) => facts.has(name)), facts)),
  );
}

function group(title, names, facts) {
  if (names.length === 0) return null;
  return el(
    "section",
    { class: "fact-group" },
    el("h3", { class: "pane-heading" }, title),
    table(title, ["Fact", "Value"], names.map((name) => [words(name), { value: shown(name, facts.get(name)), class: "num" }]), {
      className: "fact-table",
    }),
  );
}

function shown(name, value) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map((item) => (typeof item === "object" ? item?.title ?? item?.key ?? "…" : item)).join(", ") || "–";
  if (UNITS[name] && typeof value === "number") return UNITS[name](value);
  if (typeof value === "number") return Number.isInteger(value) ? count(value) : Number(value.toPrecision(3)).toString();
  return String(value).replaceAll("_", " ");
}
