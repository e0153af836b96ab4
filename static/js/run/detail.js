/** What is fetched on selection: a step's decision and candidates, a candidate's plan, an evaluation. Kept once fetched. */

import { get } from "../shared/rest.js";

const plans = new Map();
const evaluations = new Map();

/** The full step (state, decision, strategy_choice, candidates). Fetched again after the store saw it change. */
export function stepDetail(store, urls, step) {
  if (!store.details.has(step.id)) {
    const wanted = get(urls.step(step.id));
    store.details.set(step.id, wanted);
    wanted.catch(() => store.details.delete(step.id));
  }
  return store.details.get(step.id);
}

/** A candidate with its plan text. Plans never change. */
export function candidate(urls, id) {
  return once(plans, id, () => get(urls.candidate(id)));
}

/** One evaluation with its full result. Evaluations never change. */
export function evaluation(urls, id) {
  return once(evaluations, id, () => get(urls.evaluation(id)));
}

/** The candidate that stands for a step: its result, else its last attempt. */
export function chosenCandidate(detail) {
  const all = detail.candidates ?? [];
  const result = typeof detail.result === "object" ? detail.result?.id : detail.result;
  return all.find((item) => item.id === result) ?? all.at(-1) ?? null;
}

function once(cache, id, fetchIt) {
  if (!cache.has(id)) {
    const wanted = fetchIt();
    cache.set(id, wanted);
    wanted.catch(() => cache.delete(id));
  }
  return cache.get(id);
}
