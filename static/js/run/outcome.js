/** Verdicts as a coloured word with its icon; the table comes from the server so that pages and API agree. */

import { el, icon } from "../shared/dom.js";

let outcomes = {};

export function useOutcomes(table) {
  outcomes = table;
}

/** [label, colour class, icon] of an outcome; an unknown one is shown by its own name. */
export function outcomeOf(key) {
  return outcomes[key] ?? [key, "slower", "help"];
}

export function outcomeBadge(key) {
  if (!key) return null;
  const [label, tone, symbol] = outcomeOf(key);
  return el("span", { class: `verdict verdict-${tone}`, dataset: { outcome: key } }, icon(symbol), label);
}
