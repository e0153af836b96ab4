/** Conditions on the state: as words for readers, as rows of fields for curators. No JSON is shown. */

import { el, fill, icon } from "../shared/dom.js";

const OPERATORS = { in: "is one of", eq: "is", ge: "is at least", le: "is at most", true: "holds", false: "does not hold" };
const WITHOUT_VALUE = new Set(["true", "false"]);

/** {"fact": "vector_width", "op": "le", "value": 2} as "vector width is at most 2". */
export function conditionText({ fact, op, value, required }) {
  const name = String(fact).replaceAll("_", " ");
  const shown = WITHOUT_VALUE.has(op) ? "" : ` ${[value].flat().map((item) => String(item).replaceAll("_", " ")).join(" or ")}`;
  const verb = op === "in" ? "is" : (OPERATORS[op] ?? op);
  return `${name} ${verb}${shown}${required ? " (required)" : ""}`;
}

/** An editable list of conditions; `read()` gives them back. */
export class ConditionsField {
  constructor({ conditions, facts, withRequired }) {
    this.facts = facts;
    this.withRequired = withRequired;
    this.rows = el("div", { class: "condition-rows" });
    this.root = el(
      "div",
      { class: "conditions-field" },
      this.rows,
      el("button", { type: "button", class: "btn btn-sm", onclick: () => this.add({ fact: facts[0], op: "eq", value: "" }) }, icon("plus"), "Add a condition"),
    );
    this.set(conditions);
  }

  set(conditions) {
    fill(this.rows);
    for (const condition of conditions ?? []) this.add(condition);
  }

  add(condition) {
    const select = (name, options, chosen) =>
      el("select", { class: "form-select form-select-sm", name, "aria-label": name }, ...options.map(([key, label]) => el("option", { value: key, selected: key === chosen }, label)));
    const fact = select("Fact", this.facts.map((name) => [name, name.replaceAll("_", " ")]), condition.fact);
    const op = select("Comparison", Object.entries(OPERATORS), condition.op);
    const value = el("input", { class: "form-control form-control-sm", "aria-label": "Value", value: [condition.value ?? ""].flat().join(", ") });
    const required = this.withRequired
      ? el("label", { class: "required-flag", title: "Without it the direction does not match at all" }, el("input", { type: "checkbox", class: "form-check-input", checked: Boolean(condition.required) }), "required")
      : null;
    const row = el(
      "div",
      { class: "condition-row" },
      fact,
      op,
      value,
      required,
      el("button", { type: "button", class: "btn btn-sm btn-icon", "aria-label": "Remove the condition", onclick: () => row.remove() }, icon("x")),
    );
    const adapt = () => (value.hidden = WITHOUT_VALUE.has(op.value));
    op.addEventListener("change", adapt);
    adapt();
    this.rows.append(row);
  }

  read() {
    return [...this.rows.children].map((row) => {
      const [fact, op] = row.querySelectorAll("select");
      const text = row.querySelector("input.form-control").value;
      const condition = { fact: fact.value, op: op.value };
      if (!WITHOUT_VALUE.has(op.value)) condition.value = op.value === "in" ? text.split(",").map(typed).filter((item) => item !== "") : typed(text);
      if (row.querySelector("input[type=checkbox]")?.checked) condition.required = true;
      return condition;
    });
  }
}

/** "4" as a number, "true" as a boolean, all else as text. */
function typed(text) {
  const trimmed = text.trim();
  if (trimmed === "true" || trimmed === "false") return trimmed === "true";
  return trimmed !== "" && Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
}
