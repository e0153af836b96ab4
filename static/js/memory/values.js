/** Field values of the memory as words, and field tables. */

import { conditionText } from "../graph/conditions.js";
import { recipeText } from "../graph/recipe.js";
import { el } from "../shared/dom.js";
import { words } from "../shared/figures.js";

/** A stored value as a person reads it; lists one line an item. */
export function valueText(field, value) {
  if (value === null || value === undefined) return "\u2013";
  if (field === "recipe") return recipeText(value) || "none";
  if (Array.isArray(value)) return value.map((item) => (item && typeof item === "object" ? conditionText(item) : String(item))).join("\n") || "none";
  if (typeof value === "object") return JSON.stringify(value, null, 2);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return value === "" ? "(empty)" : String(value);
}

/** A table of fields: before and after, what differs in colour. `input` replaces the last cell. */
export function fieldTable(caption, heads, rows) {
  return el(
    "table",
    { class: "ledger-fields" },
    el("caption", { class: "visually-hidden" }, caption),
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, ...rows.map(({ field, before, after, input }) => fieldRow(field, before, after, input))),
  );
}

function fieldRow(field, before, after, input) {
  return el(
    "tr",
    { dataset: { field } },
    el("th", { scope: "row" }, words(field)),
    el("td", { class: before === null ? null : "is-old" }, valueText(field, before)),
    el("td", { class: after === null ? null : "is-new" }, input ?? valueText(field, after)),
  );
}
