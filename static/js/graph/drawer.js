/** The drawer: one direction, strategy or transition with its texts, statistics and evidence. */

import { outcomeBadge, relativeTime } from "../format.js";
import { el, fill, icon, notice } from "../shared/dom.js";
import { signed } from "../shared/figures.js";
import { get } from "../shared/rest.js";
import { conditionText } from "./conditions.js";
import { exclusionButton } from "./exclusion.js";
import { bucketTable, statisticsBlock, utilityText } from "./figures.js";
import { recipeText } from "./recipe.js";

const EVIDENCE_ROWS = 20;
const COLLECTIONS = { direction: "/api/directions/", strategy: "/api/strategies/", edge: "/api/edges/" };

export class Drawer {
  constructor(root, model, { mayCurate, select, edit, create, expand, query, changed, moment }) {
    Object.assign(this, { root, model, mayCurate, select, edit, create, expand, query, changed, moment });
    this.turn = 0;
  }

  async show(selection) {
    this.turn += 1;
    if (!selection) return this.showOverview();
    const turn = this.turn;
    const row = rowIdOf(selection, this.model);
    if (!row) return fill(this.root, notice("This part is not in the graph.", { symbol: "help" }));
    if (this.moment()) return this.showPast(selection);
    try {
      const [part, evidence] = await Promise.all([
        get(`${COLLECTIONS[selection.kind]}${row}/?${this.query()}`),
        get(`/api/evidence/?${selection.kind}=${row}&limit=${EVIDENCE_ROWS}`),
      ]);
      if (turn !== this.turn) return;
      this.part = part;
      fill(this.root, ...this[selection.kind](part), ...evidenceBlock(evidence, selection.kind, this.mayCurate ? this.changed : null));
      this.root.scrollTop = 0;
    } catch (error) {
      if (turn === this.turn) fill(this.root, notice(error.message, { tone: "error", symbol: "alert-triangle" }));
    }
  }

  /** What the graph of a moment says of a part; its texts of then stand in the history. */
  showPast(selection) {
    const row = { direction: () => this.model.directions.get(selection.id), strategy: () => this.model.strategies.get(selection.id), edge: () => this.model.edgeByRow(selection.id) }[selection.kind]();
    const title = selection.kind === "edge" ? `${this.nodeTitle(row.source ?? "START")} to ${this.nodeTitle(row.target)}` : row.title;
    fill(
      this.root,
      el("div", { class: "drawer-kind muted" }, "As it was then"),
      el("h2", { class: "drawer-title" }, title),
      statisticsBlock(row, row.prior_utility),
      el("p", { class: "muted" }, "Move the time to now to read its texts and to edit."),
    );
  }

  showOverview() {
    const strongest = [...this.model.edges.values()].filter((edge) => edge.tries > 0).sort((a, b) => b.tries - a.tries || b.utility - a.utility).slice(0, 8);
    fill(
      this.root,
      el("h2", { class: "drawer-title" }, "Select a direction, a strategy or a transition"),
      el("p", { class: "muted" }, "A direction's size grows with the steps that tried it; its colour is the posterior utility of a step, from red (slower) to green (twice as fast). Double-click shows its strategies."),
      strongest.length
        ? el("section", { class: "drawer-section" }, el("h3", { class: "pane-heading" }, "Most travelled transitions"), el("ul", { class: "link-list" }, ...strongest.map((edge) => this.edgeItem(edge))))
        : el("p", { class: "muted" }, "No run has taught this bank yet: every utility is its prior."),
    );
  }

  direction(part) {
    const strategies = this.model.strategiesOf(part.key);
    const edges = this.model.edgesOf(part.key);
    return [
      this.head(part, "Direction", part.title, [
        button("chevrons-down", "Strategies on the graph", () => this.expand(part.key)),
        this.mayCurate && button("plus", "New strategy", () => this.create("strategy", { direction: part.id })),
        this.mayCurate && button("arrow-right", "New transition from here", () => this.create("edge", { source: part.id })),
      ]),
      el("p", { class: "lead-text" }, part.intent),
      statisticsBlock(part.statistics, part.prior_utility),
      list("Goals", part.goals),
      list("Triggers", part.triggers.map(conditionText)),
      list("Risks", part.risks),
      section(`Strategies (${strategies.length})`, strategies.length ? el("ul", { class: "link-list" }, ...strategies.map((row) => this.strategyItem(row))) : el("p", { class: "muted" }, "None yet.")),
      section("Transitions in", edgeList(edges.filter((edge) => edge.target === part.key), this)),
      section("Transitions out", edgeList(edges.filter((edge) => edge.source === part.key), this)),
      bucketTable(part.buckets),
    ];
  }

  strategy(part) {
    const direction = this.model.directions.get(part.direction_key);
    return [
      this.head(part, "Strategy of ", part.title, [], el("a", { href: `?direction=${part.direction_key}`, onclick: (event) => this.follow(event, { kind: "direction", id: part.direction_key }) }, direction?.title ?? part.direction_key)),
      section("Edit pattern", el("p", { class: "lead-text" }, part.edit_pattern)),
      section("Applies when", el("p", {}, part.applies_when)),
      statisticsBlock(part.statistics, part.prior_utility),
      list("Conditions, all must hold", part.conditions.map(conditionText)),
      section("Recipe", part.recipe ? el("code", {}, recipeText(part.recipe)) : el("p", { class: "muted" }, "None: an LLM or a person carries it out.")),
      list("Checks", part.checks),
      list("Risks", part.risks),
      bucketTable(part.buckets),
    ];
  }

  edge(part) {
    const title = `${this.nodeTitle(part.source_key)} to ${this.nodeTitle(part.target_key)}`;
    return [
      this.head(part, "Transition", title, []),
      part.rationale ? section("Rationale", el("p", { class: "lead-text" }, part.rationale)) : null,
      part.applies_when ? section("Applies when", el("p", {}, part.applies_when)) : null,
      statisticsBlock(part.statistics, part.prior_utility),
      list("Risks", part.risks),
      bucketTable(part.buckets),
    ];
  }

  head(part, kind, title, actions, after = null) {
    return el(
      "header",
      { class: "drawer-head" },
      el("div", { class: "drawer-kind muted" }, kind, after, part.retired ? el("span", { class: "retired-mark" }, "retired") : null),
      el("h2", { class: "drawer-title" }, title),
      el("button", { type: "button", class: "btn-close drawer-close", "aria-label": "Close", onclick: () => this.select(null) }),
      el(
        "div",
        { class: "drawer-actions" },
        this.mayCurate ? button("pencil", "Edit", () => this.edit(part), { primary: true }) : null,
        ...actions,
      ),
      el("p", { class: "muted drawer-version" }, `Version ${part.version}`, part.updated_by ? ` by ${part.updated_by}, ` : ", ", relativeTime(part.updated_at)),
    );
  }

  nodeTitle(key) {
    return this.model.directions.get(key)?.title ?? key;
  }

  strategyItem(row) {
    return this.item({ kind: "strategy", id: row.id }, row.title, row);
  }

  edgeItem(edge) {
    return this.item({ kind: "edge", id: edge.id }, `${this.nodeTitle(edge.source ?? "START")} to ${this.nodeTitle(edge.target)}`, edge);
  }

  item(selection, label, row) {
    return el(
      "li",
      { class: row.retired ? "retired" : null },
      el("a", { href: `?${selection.kind}=${selection.id}`, onclick: (event) => this.follow(event, selection) }, label),
      el("span", { class: "num muted" }, `${signed(row.utility)}, n=${row.tries}`),
    );
  }

  follow(event, selection) {
    if (event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    this.select(selection);
  }
}

function rowIdOf(selection, model) {
  return selection.kind === "direction" ? model.directions.get(selection.id)?.id : selection.id;
}

function edgeList(edges, drawer) {
  if (edges.length === 0) return el("p", { class: "muted" }, "None.");
  const sorted = [...edges].sort((a, b) => b.utility - a.utility);
  return el("ul", { class: "link-list" }, ...sorted.map((edge) => drawer.edgeItem(edge)));
}

function section(title, content) {
  return el("section", { class: "drawer-section" }, el("h3", { class: "pane-heading" }, title), content);
}

function list(title, sentences) {
  return sentences?.length ? section(title, el("ul", { class: "sentences" }, ...sentences.map((text) => el("li", {}, text)))) : null;
}

function button(symbol, label, onclick, { primary = false } = {}) {
  return el("button", { type: "button", class: `btn btn-sm${primary ? " btn-primary" : ""}`, onclick }, icon(symbol), label);
}

function evidenceBlock(page, kind, changed) {
  if (page.count === 0) return [section("Evidence", el("p", { class: "muted" }, "No step has shown anything about it yet."))];
  const more = page.count > page.results.length ? el("p", { class: "muted" }, `The newest ${page.results.length} of ${page.count}.`) : null;
  return [section(`Evidence (${page.count})`, el("div", {}, el("ul", { class: "evidence-list" }, ...page.results.map((row) => evidenceItem(row, kind, changed))), more))];
}

function evidenceItem(row, kind, changed) {
  const about = kind === "strategy" ? `after ${row.source_key ?? "START"}` : row.strategy_title;
  const text = row.run ? `Run ${row.run}` : "Imported";
  return el(
    "li",
    { class: row.excluded ? "excluded" : null, dataset: { evidence: row.id } },
    row.run ? el("a", { href: `/runs/${row.run}/?step_id=${row.step}` }, text) : el("span", {}, text),
    outcomeBadge(row.verdict === "correct" && row.improved ? "faster" : row.verdict),
    el("span", { class: "num" }, `u ${signed(row.utility)}`),
    el("span", { class: "muted evidence-about", title: `${row.device}, ${row.dtype}, ${row.family}` }, about ?? ""),
    el("span", { class: "muted" }, relativeTime(row.created_at)),
    row.excluded ? el("span", { class: "muted" }, `excluded: ${row.excluded_reason}`) : null,
    changed && exclusionButton(row, changed),
  );
}

export { utilityText };
