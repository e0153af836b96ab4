/** The bank as tables: everything the graph shows, selectable, sortable by eye and reachable by keyboard. */

import { el, fill } from "../shared/dom.js";
import { percent, signed } from "../shared/figures.js";
import { utilityText } from "./figures.js";

const num = (value) => ({ value, class: "num" });
const FIGURES = [num("Utility"), num("Prior"), num("n"), num("Compiles"), num("Correct"), num("Improves")];

export class BankTables {
  constructor(root, model, select) {
    Object.assign(this, { root, model, select });
    root.addEventListener("htam:current", (event) => this.choose(event.target));
  }

  draw(selection, needle = "") {
    const fits = (text) => text.toLowerCase().includes(needle.toLowerCase());
    const title = (key) => this.model.directions.get(key)?.title ?? key;
    const directions = [...this.model.directions.values()].filter((row) => fits(row.title));
    const strategies = [...this.model.strategies.values()].filter((row) => fits(row.title));
    const edges = [...this.model.edges.values()].filter((row) => fits(title(row.source ?? "START")) || fits(title(row.target)));
    fill(
      this.root,
      this.table("Directions", ["Direction"], directions, "direction", (row) => row.key, (row) => [row.title], selection),
      this.table("Transitions", ["From", "To"], edges, "edge", (row) => row.id, (row) => [title(row.source ?? "START"), title(row.target)], selection),
      this.table("Strategies", ["Strategy", "Direction"], strategies, "strategy", (row) => row.id, (row) => [row.title, title(row.direction)], selection),
    );
  }

  table(caption, heads, rows, kind, idOf, names, selection) {
    const header = [...heads, ...FIGURES].map((cell) => el("th", { scope: "col", class: cell.class }, cell.value ?? cell));
    const body = rows.map((row) => this.row(kind, idOf(row), names(row), row, selection));
    return el(
      "section",
      { class: "card bank-table" },
      el("div", { class: "card-header" }, el("h2", { class: "card-title" }, `${caption} (${rows.length})`)),
      el(
        "div",
        { class: "htam-table-wrap" },
        el("table", { class: "htam-table", dataset: { table: kind } }, el("thead", {}, el("tr", {}, ...header)), el("tbody", {}, ...(body.length ? body : [el("tr", {}, el("td", { colspan: header.length, class: "muted" }, "Nothing here."))]))),
      ),
    );
  }

  row(kind, id, names, row, selection) {
    const current = selection?.kind === kind && selection.id === id;
    const [first, ...others] = names;
    const rate = (value) => el("td", { class: "num" }, percent(value));
    return el(
      "tr",
      { class: `${current ? "is-current" : ""}${row.retired ? " retired" : ""}`, dataset: { row: "", kind, id } },
      el("td", {}, el("button", { type: "button", class: "row-link", onclick: () => this.select({ kind, id }) }, first)),
      ...others.map((name) => el("td", {}, name)),
      el("td", { class: "num" }, utilityText(row)),
      el("td", { class: "num muted" }, signed(row.prior_utility)),
      el("td", { class: "num" }, row.tries),
      rate(row.compile_rate),
      rate(row.correct_rate),
      rate(row.improve_rate),
    );
  }

  choose(tr) {
    const { kind, id } = tr.dataset;
    this.select({ kind, id: kind === "direction" ? id : Number(id) });
  }
}
