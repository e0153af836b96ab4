/** The phase strip: what the selected step is doing now and how long each phase took. */

import { el, fill } from "../shared/dom.js";
import { seconds } from "../shared/figures.js";

const PHASES = ["summarise", "direction", "strategy", "write", "compile", "check", "time", "update"];
const LABELS = {
  summarise: "Summarise",
  direction: "Direction",
  strategy: "Strategy",
  write: "Write",
  compile: "Compile",
  check: "Check",
  time: "Time",
  update: "Update",
};

export function mountPhases(root, store) {
  const render = () => fill(root, ...strip(store));
  store.on(["steps", "selection", "phase", "run"], render);
  render();
  setInterval(() => {
    const step = store.current;
    if (step && step.stage !== "done" && store.phases.has(step.index)) render();
  }, 500);
}

function strip(store) {
  const step = store.current;
  const live = step ? livePhase(store, step) : null;
  const spent = step ? spentIn(store, step) : {};
  return PHASES.map((phase) => cell(phase, stateOf(phase, step, live), spent[phase], live));
}

function cell(phase, state, time, live) {
  const isLive = state === "live";
  const ticking = isLive && live.since ? Math.max(0, (Date.now() - Date.parse(live.since)) / 1000) : 0;
  const total = (time ?? 0) + ticking;
  const known = time !== undefined || isLive;
  return el(
    "li",
    {
      class: `phase phase-${state}`,
      "aria-current": isLive ? "step" : null,
      dataset: { phase, state },
    },
    el("span", { class: "phase-name" }, LABELS[phase]),
    el("span", { class: "phase-time" }, known ? seconds(total) : state === "todo" ? "" : "–"),
    isLive && live.of && phase !== "update"
      ? el("span", { class: "phase-extra" }, `repair ${live.attempt}/${live.of}`)
      : null,
    isLive && live.confirming ? el("span", { class: "phase-extra" }, "confirming") : null,
  );
}

/** The phase in progress. "evaluate" is a stage of the loop whose phases are compile, check and time. */
function livePhase(store, step) {
  if (step.stage === "done" || store.terminal) return null;
  const live = store.phases.get(step.index) ?? { phase: step.stage, since: null };
  return { ...live, phase: live.phase === "evaluate" ? "compile" : live.phase };
}

function spentIn(store, step) {
  const { evaluate, ...recorded } = step.stage_seconds ?? {};
  if (step.stage === "done") return recorded;
  const counted = store.phases.get(step.index)?.spent ?? {};
  const compile = (counted.compile ?? 0) + (counted.evaluate ?? 0);
  return { ...recorded, ...counted, ...(compile ? { compile } : {}) };
}

function stateOf(phase, step, live) {
  if (!step) return "todo";
  if (live?.phase === phase) return "live";
  if (step.stage === "done") return step.stage_seconds?.[phase] === undefined ? "skipped" : "done";
  const at = live ? PHASES.indexOf(live.phase) : -1;
  return PHASES.indexOf(phase) < at ? "done" : "todo";
}
