/** Forms that make and edit directions, strategies and transitions. A stale save shows both texts side by side. */

import { el, fill, icon } from "../shared/dom.js";
import { signed } from "../shared/figures.js";
import { patch, post } from "../shared/rest.js";
import { ConditionsField, conditionText } from "./conditions.js";
import { parseRecipe, recipeText } from "./recipe.js";

const PRIOR = ["prior_utility", "Prior utility", "prior"];
const RISKS = ["risks", "Risks, one a line", "lines"];
/** Per kind: [field, label, type]; "once" fields name the part and are asked only when it is made. */
const FIELDS = {
  direction: [
    ["key", "Key", "key", "once"],
    ["title", "Title", "text"],
    ["intent", "Intent", "paragraph"],
    PRIOR,
    ["goals", "Goals, one a line", "lines"],
    ["triggers", "Triggers: when it fits the state", "conditions"],
    RISKS,
  ],
  strategy: [
    ["key", "Key", "key", "once"],
    ["title", "Title", "text"],
    ["edit_pattern", "Edit pattern: what to change in the kernel", "paragraph"],
    ["applies_when", "Applies when", "paragraph"],
    ["conditions", "The same as conditions; all must hold", "conditions"],
    PRIOR,
    ["recipe", "Recipe move (empty: only an LLM or a person can do it)", "recipe"],
    ["checks", "Checks after the edit, one a line", "lines"],
    RISKS,
  ],
  edge: [
    ["source", "From", "node", "once"],
    ["target", "To", "node", "once"],
    ["applies_when", "Applies when", "paragraph"],
    ["rationale", "Rationale", "paragraph"],
    PRIOR,
    RISKS,
  ],
};
const COLLECTIONS = { direction: "/api/directions/", strategy: "/api/strategies/", edge: "/api/edges/" };
const NOUNS = { direction: "direction", strategy: "strategy", edge: "transition" };

/** The form of one part. `part` is its row, or what is known of a new one (no `id`). */
export class PartForm {
  constructor({ kind, part, facts, directions, onSaved, onClose }) {
    Object.assign(this, { kind, part, facts, directions, onSaved, onClose });
    this.isNew = part.id === undefined;
    this.version = part.version;
    this.inputs = new Map();
    this.error = el("p", { class: "form-error", role: "alert" });
    this.conflict = el("div", { class: "conflict" });
    this.root = el(
      "form",
      { class: "part-form", "aria-label": this.title(), onsubmit: (event) => this.submit(event) },
      el("h2", { class: "drawer-title" }, this.title()),
      ...this.fields().map((field) => this.control(field)),
      this.isNew ? null : this.retiredControl(),
      this.conflict,
      this.error,
      el(
        "div",
        { class: "form-actions" },
        el("button", { class: "btn btn-primary btn-sm", type: "submit" }, this.isNew ? `Make the ${NOUNS[kind]}` : "Save"),
        el("button", { class: "btn btn-sm", type: "button", onclick: onClose }, "Close"),
      ),
    );
  }

  title() {
    return this.isNew ? `New ${NOUNS[this.kind]}` : `Edit ${this.part.title ?? NOUNS[this.kind]}`;
  }

  fields() {
    return FIELDS[this.kind].filter(([, , , once]) => this.isNew || !once);
  }

  control([name, label, type]) {
    const id = `field-${name}`;
    const input = makeInput(type, id, this.part[name], this);
    this.inputs.set(name, input);
    return el("div", { class: "form-field" }, el("label", { class: "form-label", for: id }, label), input.root);
  }

  retiredControl() {
    const box = el("input", { type: "checkbox", class: "form-check-input", id: "field-retired", checked: Boolean(this.part.retired) });
    this.inputs.set("retired", { root: box, read: () => box.checked, set: (value) => (box.checked = value), words: (value) => (value ? "yes" : "no") });
    return el("label", { class: "retired-flag" }, box, "Retired: kept for its history, never chosen again");
  }

  values() {
    return Object.fromEntries([...this.inputs].map(([name, input]) => [name, input.read()]));
  }

  async submit(event) {
    event.preventDefault();
    this.error.textContent = "";
    try {
      const saved = this.isNew ? await post(COLLECTIONS[this.kind], { ...this.fixed(), ...this.values() }) : await patch(`${COLLECTIONS[this.kind]}${this.part.id}/`, { ...this.changes(), version: this.version });
      this.onSaved(saved);
    } catch (error) {
      if (error.status === 409 && error.body?.current) this.showConflict(error.body.current);
      else this.error.textContent = error.message;
    }
  }

  fixed() {
    return this.kind === "strategy" ? { direction: this.part.direction } : { bank: this.part.bank };
  }

  /** Only what differs from the text that was opened, so that untouched fields never overwrite another's work. */
  changes() {
    return Object.fromEntries(Object.entries(this.values()).filter(([name, value]) => !same(value, this.part[name])));
  }

  /** The newer text beside one's own; each differing field can be taken over before saving again. */
  showConflict(current) {
    const mine = this.values();
    this.version = current.version;
    this.part = { ...this.part, ...current };
    const differing = [...this.inputs].filter(([name]) => !same(mine[name], current[name]));
    const rows = differing.map(([name, input]) => {
      const label = name === "retired" ? "Retired" : FIELDS[this.kind].find(([field]) => field === name)[1];
      const take = el("button", { type: "button", class: "btn btn-sm" }, "Take theirs");
      const row = el(
        "div",
        { class: "conflict-row", dataset: { field: name } },
        el("h4", {}, label),
        el("div", { class: "conflict-side" }, el("span", { class: "muted" }, "Theirs"), el("p", {}, input.words(current[name])), take),
        el("div", { class: "conflict-side" }, el("span", { class: "muted" }, "Yours"), el("p", {}, input.words(mine[name]))),
      );
      take.addEventListener("click", () => {
        input.set(current[name]);
        row.remove();
      });
      return row;
    });
    fill(
      this.conflict,
      el("p", { class: "conflict-lead" }, icon("git-merge"), `${current.updated_by ?? "Somebody"} saved version ${current.version} meanwhile. Saving again keeps your text where it differs.`),
      ...rows,
    );
    this.conflict.scrollIntoView({ block: "nearest" });
  }
}

/** An input with `root`, `read()`, `set(value)` and `words(value)`. */
function makeInput(type, id, value, form) {
  return { text, key: text, paragraph, lines, prior, conditions, recipe, node }[type](id, value, form);
}

function text(id, value) {
  const root = el("input", { id, class: "form-control form-control-sm", required: true, value: value ?? "" });
  return { root, read: () => root.value.trim(), set: (next) => (root.value = next), words: String };
}

function paragraph(id, value) {
  const root = el("textarea", { id, class: "form-control form-control-sm", rows: 4 }, value ?? "");
  return { root, read: () => root.value.trim(), set: (next) => (root.value = next), words: (next) => next || "(empty)" };
}

function lines(id, value) {
  const root = el("textarea", { id, class: "form-control form-control-sm", rows: Math.max(2, (value ?? []).length + 1) }, (value ?? []).join("\n"));
  return {
    root,
    read: () => root.value.split("\n").map((line) => line.trim()).filter(Boolean),
    set: (next) => (root.value = next.join("\n")),
    words: (next) => (next ?? []).join("; ") || "(none)",
  };
}

function prior(id, value) {
  const slider = el("input", { type: "range", class: "form-range", min: -1, max: 1, step: 0.01, value: value ?? 0, "aria-label": "Prior utility as a slider", tabindex: -1 });
  const number = el("input", { id, type: "number", class: "form-control form-control-sm num", min: -1, max: 1, step: "any", value: value ?? 0, required: true });
  slider.addEventListener("input", () => (number.value = slider.value));
  number.addEventListener("input", () => (slider.value = number.value));
  const root = el("div", { class: "prior-input" }, slider, number);
  return {
    root,
    read: () => Number(number.value),
    set: (next) => (number.value = slider.value = next),
    words: (next) => signed(next),
  };
}

function conditions(id, value, form) {
  const field = new ConditionsField({ conditions: value, facts: form.facts, withRequired: form.kind === "direction" });
  field.root.id = id;
  return { root: field.root, read: () => field.read(), set: (next) => field.set(next), words: (next) => (next ?? []).map(conditionText).join("; ") || "(none)" };
}

function recipe(id, value) {
  const root = el("input", { id, class: "form-control form-control-sm mono", value: recipeText(value), placeholder: "vector_width width=4" });
  return { root, read: () => parseRecipe(root.value), set: (next) => (root.value = recipeText(next)), words: (next) => recipeText(next) || "(none)" };
}

function node(id, value, form) {
  const options = id === "field-source" ? [["", "START"], ...form.directions] : form.directions;
  const root = el("select", { id, class: "form-select form-select-sm" }, ...options.map(([row, title]) => el("option", { value: row, selected: row === value }, title)));
  return { root, read: () => (root.value === "" ? null : Number(root.value)), set: (next) => (root.value = next ?? ""), words: String };
}

function same(one, other) {
  return JSON.stringify(one ?? null) === JSON.stringify(other ?? null);
}
