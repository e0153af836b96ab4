/** The step cards: direction > strategy, verdict, speed-up with interval, time. Failures are steps like any other. */

import { durationUs, outcomeBadge, speedup } from "../format.js";
import { el, fill, icon, notice, perFrame } from "../shared/dom.js";
import { seconds } from "../shared/figures.js";
import { refutedMark } from "./marks.js";

export function mountSteps(root, store) {
  const list = el("ol", { class: "step-list", role: "listbox", "aria-label": "Steps", tabindex: "0" });
  fill(root, list);
  const render = perFrame(() => draw(list, store));
  store.on(["steps", "selection", "run"], render);
  // The frame's j and k move between [data-row] elements and say so.
  list.addEventListener("htam:current", (event) => store.select(Number(event.target.dataset.step)));
  draw(list, store);
}

function draw(list, store) {
  const steps = store.ordered;
  const shown = store.current?.index;
  if (steps.length === 0) {
    fill(list, el("li", {}, notice(waitingSentence(store), { symbol: "hourglass" })));
    return;
  }
  const scroll = list.scrollTop;
  fill(list, ...steps.map((step) => card(step, store, step.index === shown)), pending(store, steps));
  list.scrollTop = scroll;
}

function card(step, store, selected) {
  const isBest = Boolean(step.result) && step.result === store.run.best_candidate;
  return el(
    "li",
    {
      class: `step-card${selected ? " is-current" : ""}${step.stage === "done" ? "" : " working"}`,
      role: "option",
      "aria-selected": String(selected),
      dataset: { row: "", step: step.index, outcome: step.outcome || "", stage: step.stage },
      onclick: () => store.select(step.index),
    },
    el(
      "div",
      { class: "step-head" },
      el("span", { class: "step-index" }, step.index),
      el("span", { class: "step-direction" }, step.direction?.title ?? "Choosing a direction"),
      isBest && el("span", { class: "step-best", title: "Best of this run" }, icon("trophy"), "best"),
    ),
    el("div", { class: "step-strategy" }, step.strategy?.title ?? (step.direction ? "Choosing a strategy" : " ")),
    el(
      "div",
      { class: "step-foot" },
      step.outcome ? outcomeBadge(step.outcome) : el("span", { class: "step-working" }, workingWord(store, step)),
      step.speedup ? speedup(step.speedup, step.speedup_low, step.speedup_high) : null,
      el("span", { class: "num muted step-time" }, step.time_us ? durationUs(step.time_us) : duration(step)),
    ),
    step.refuted_by ? el("div", { class: "step-strategy" }, refutedMark(step.refuted_by)) : null,
    step.message && step.outcome !== "faster"
      ? el("div", { class: "step-message", title: step.message }, step.message)
      : null,
  );
}

function pending(store, steps) {
  const left = store.run.steps_total - steps.length;
  if (left <= 0 || store.terminal) return null;
  return el("li", { class: "step-pending", role: "presentation" }, `${left} more ${left === 1 ? "step" : "steps"} to come`);
}

function waitingSentence(store) {
  if (store.terminal) return "This run ended before its first step.";
  if (store.run.status === "queued") return "Queued: the first step starts when a worker is free.";
  return "The first step is about to start.";
}

function workingWord(store, step) {
  if (store.terminal) return "Unfinished";
  const phase = store.phases.get(step.index)?.phase ?? step.stage;
  return { summarise: "Summarising", direction: "Choosing", strategy: "Choosing", write: "Writing", evaluate: "Evaluating",
    compile: "Compiling", check: "Checking", time: "Timing", update: "Updating memory" }[phase] ?? phase;
}

function duration(step) {
  if (!step.started_at || !step.finished_at) return "";
  return seconds((Date.parse(step.finished_at) - Date.parse(step.started_at)) / 1000);
}

