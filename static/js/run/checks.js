/** The list of checks of an evaluation: name, verdict, numbers, in words. */

import { significant } from "../format.js";
import { el, icon, table } from "../shared/dom.js";
import { words } from "../shared/figures.js";

export function checksTable(checks) {
  if (checks.length === 0) return null;
  const failed = checks.filter((check) => !check.passed).length;
  return el(
    "div",
    {},
    table(
      "Checks",
      ["Check", "Result", "What was seen"],
      checks.map((check) => [
        words(check.name),
        check.passed ? el("span", { class: "check-pass" }, icon("check"), "passed") : el("span", { class: "check-fail" }, icon("x"), "failed"),
        el("span", {}, check.detail, numbers(check.numbers)),
      ]),
      { className: "checks-table" },
    ),
    el("p", { class: "eval-note" }, sentence(checks.length, failed)),
  );
}

function sentence(count, failed) {
  if (failed) return count === 1 ? "The check failed." : `${failed} of ${count} checks failed.`;
  return count === 1 ? "The check passed." : `All ${count} checks passed.`;
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
