/** What the pages of history and review share: rows left, one selected that stands in the URL, details right. */

import { el, fill, notice } from "../shared/dom.js";
import { get } from "../shared/rest.js";

const byId = (id) => document.getElementById(id);

export class Ledger {
  /**
   * `address(filter)`: the first page of rows; `row(item)`: its list item's content; `detail(item)`: nodes, may wait;
   * `empty(filter)`: what to say of none.
   */
  constructor({ name, address, row, detail, empty, undone = () => false }) {
    Object.assign(this, { name, address, row, detail, empty, undone });
    this.items = [];
    this.turn = 0;
    this.list = byId("ledger-rows");
    this.pane = byId("ledger-detail");
    this.filter = byId("ledger-filter");
    this.filter.addEventListener("change", () => this.load());
    this.list.addEventListener("htam:current", (event) => this.select(Number(event.target.dataset.id)));
    this.list.addEventListener("click", (event) => {
      const node = event.target.closest("[data-id]");
      if (node && !event.target.closest("a")) this.select(Number(node.dataset.id));
    });
  }

  get current() {
    return this.items.find((item) => item.id === this.selected);
  }

  /** Read the rows again; the selection stays where it can, else goes to the row at its place. */
  async load() {
    const place = Math.max(0, this.items.findIndex((item) => item.id === this.selected));
    try {
      const page = await get(this.address(this.filter.value));
      this.items = page.results;
      this.next = page.next;
    } catch (error) {
      return fill(this.list, notice(error.message, { tone: "error", symbol: "alert-triangle" }));
    }
    const wanted = this.selected ?? Number(new URLSearchParams(location.search).get(this.name));
    const chosen = this.items.find((item) => item.id === wanted) ?? this.items[Math.min(place, this.items.length - 1)];
    this.draw();
    if (chosen) await this.select(chosen.id, { inUrl: false });
    else fill(this.pane, notice("Nothing is selected."));
  }

  draw() {
    const more = this.next && el("li", { class: "ledger-row" }, el("button", { type: "button", class: "btn btn-sm", onclick: () => this.more() }, "Show more"));
    fill(this.list, this.items.length ? this.items.map((item) => this.item(item)) : el("li", {}, notice(this.empty(this.filter.value))), more);
    this.mark();
  }

  async more() {
    const { pathname, search } = new URL(this.next, location.href);
    const page = await get(pathname + search);
    this.items.push(...page.results);
    this.next = page.next;
    this.draw();
  }

  item(item) {
    return el("li", { class: `ledger-row${this.undone(item) ? " is-undone" : ""}`, dataset: { row: "", id: item.id } }, ...this.row(item));
  }

  mark() {
    for (const node of this.list.querySelectorAll("[data-id]")) node.classList.toggle("is-current", Number(node.dataset.id) === this.selected);
  }

  /** `inUrl`: what a person chose stands in the address; what a page fell upon does not. */
  async select(id, { inUrl = true } = {}) {
    this.selected = id;
    this.mark();
    if (inUrl) this.writeUrl(id);
    this.turn += 1;
    const turn = this.turn;
    try {
      const nodes = await this.detail(this.current);
      if (turn === this.turn) fill(this.pane, ...nodes);
    } catch (error) {
      if (turn === this.turn) fill(this.pane, notice(error.message, { tone: "error", symbol: "alert-triangle" }));
    }
  }

  writeUrl(id) {
    const url = new URL(location.href);
    url.searchParams.set(this.name, id);
    history.replaceState(null, "", url);
  }
}

/** Call `actions[key]` for a plain key outside of fields and dialogs. */
export function onKeys(actions) {
  document.addEventListener("keydown", (event) => {
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || document.querySelector("dialog[open]")) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
