/** How the statistics of a node or edge read: utility with its interval, evidence, rates. */

import { el, table } from "../shared/dom.js";
import { evidenceCount, percent, signed } from "../shared/figures.js";
import { utilityColour } from "./style.js";

/** "+0.31 [+0.12, +0.48]". */
export function utilityText({ utility, utility_low: low, utility_high: high }) {
  if (low === undefined || low === null) return signed(utility);
  return `${signed(utility)} [${signed(low)}, ${signed(high)}]`;
}

/** A line from -1 to 1 with the interval, the posterior mean and the prior on it. */
export function utilityBar(statistics, prior) {
  const at = (value) => `${((value + 1) / 2) * 100}%`;
  const { utility, utility_low: low, utility_high: high } = statistics;
  return el(
    "div",
    { class: "utility-bar", role: "img", "aria-label": `Utility ${utilityText(statistics)}, prior ${signed(prior)}` },
    el("i", { class: "utility-zero" }),
    el("i", { class: "utility-range", style: { left: at(low), width: `${((high - low) / 2) * 100}%`, background: utilityColour(utility) } }),
    el("i", { class: "utility-prior", style: { left: at(prior) }, title: `Prior ${signed(prior)}` }),
    el("i", { class: "utility-mean", style: { left: at(utility), background: utilityColour(utility) }, title: `Posterior mean ${signed(utility)}` }),
    el("span", { class: "utility-end low" }, "−1"),
    el("span", { class: "utility-end high" }, "+1"),
  );
}

/** The statistics block of the drawer. */
export function statisticsBlock(statistics, prior) {
  const rate = (name, value) => [el("dt", {}, name), el("dd", { class: "num" }, percent(value))];
  return el(
    "section",
    { class: "drawer-section statistics" },
    el("h3", { class: "pane-heading" }, "Utility of a step"),
    el(
      "div",
      { class: "utility-figure" },
      el("strong", { class: "num", dataset: { statistic: "utility" } }, utilityText(statistics)),
      el("span", { class: "muted" }, `prior ${signed(prior)}, `),
      el("span", { class: "muted", dataset: { statistic: "tries" } }, `n=${evidenceCount(statistics.tries)}`),
    ),
    utilityBar(statistics, prior),
    statistics.tries
      ? el("dl", { class: "rates" }, ...rate("Compiles", statistics.compile_rate), ...rate("Correct", statistics.correct_rate), ...rate("Improves", statistics.improve_rate))
      : el("p", { class: "muted" }, "No step has tried it yet; the utility is the prior's."),
  );
}

/** Evidence by device, dtype and operator family. */
export function bucketTable(buckets) {
  if (!buckets?.length) return null;
  const num = (value) => ({ value, class: "num" });
  return el(
    "section",
    { class: "drawer-section" },
    el("h3", { class: "pane-heading" }, "Where it was tried"),
    table(
      "Evidence by device, dtype and family",
      ["Device", "dtype", "Family", num("n"), num("Improved"), num("Mean")],
      buckets.map((row) => [
        el("span", { class: "device-name", title: row.device }, row.device.replace(/^[^:]*:/, "")),
        row.dtype,
        row.family.replaceAll("_", " "),
        num(row.tries),
        num(row.improved),
        num(signed(row.mean_utility)),
      ]),
    ),
  );
}
