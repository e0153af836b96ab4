/** "Why this direction?": every candidate's score split into its terms, as stored when the step chose. */

import { el, icon, notice } from "../shared/dom.js";
import { evidenceCount, percent, signed, words } from "../shared/figures.js";
import { conditionText } from "../graph/conditions.js";
import { stepDetail } from "./detail.js";
import { Pane } from "./pane.js";

const TERMS = [
  ["prefix", "Prefix", "what the directions before it suggest comes next"],
  ["value", "Value", "what this direction has been worth"],
  ["match", "Match", "how well its triggers fit the state"],
];

export class WhyPane {
  constructor(root, store, urls) {
    this.store = store;
    this.urls = urls;
    this.open = new Set(); // directions whose terms are shown; kept from step to step
    this.pane = new Pane(root, () => this.draw());
  }

  show() {
    const step = this.store.current;
    this.pane.show(step ? `${step.id}|${step.direction?.key ?? ""}|${step.strategy?.key ?? ""}|${step.stage === "done"}` : "none");
  }

  async draw() {
    const step = this.store.current;
    if (!step) return notice("The first step has not begun.", { symbol: "hourglass" });
    const detail = await stepDetail(this.store, this.urls, step);
    const decision = detail.decision ?? {};
    if (!decision.scores?.length) return notice("No direction is chosen yet.", { symbol: "hourglass" });
    return [this.lead(step, decision), this.bars(decision), this.strategies(detail)];
  }

  lead(step, decision) {
    const chosen = decision.scores.find((score) => score.key === decision.chosen);
    const prefix = (decision.prefix ?? []).map((key) => this.titleOf(decision, key));
    return el(
      "div",
      { class: "why-lead" },
      el(
        "p",
        {},
        el("strong", {}, chosen?.title ?? decision.chosen),
        ` had probability ${chosen ? chosen.probability.toFixed(2) : "–"} among ${decision.scores.length} directions`,
        decision.tau ? ` (softmax at temperature ${decision.tau})` : "",
        prefix.length ? `, after ${prefix.join(", before that ")}.` : ".",
      ),
      decision.mode === "flat"
        ? el("p", { class: "muted" }, "Without the hierarchy a direction's score sums up its strategies' scores.")
        : el(
            "ul",
            { class: "why-legend" },
            ...TERMS.map(([name, label, meaning]) => el("li", { title: meaning }, el("i", { class: `swatch term-${name}` }), label)),
          ),
    );
  }

  titleOf(decision, key) {
    if (key === "START") return "the start";
    return decision.scores.find((score) => score.key === key)?.title ?? key;
  }

  bars(decision) {
    const scale = scaleOf(decision.scores);
    return el("ol", { class: "why-list" }, ...decision.scores.map((score) => this.row(score, decision, scale)));
  }

  row(score, decision, scale) {
    const chosen = score.key === decision.chosen;
    const body = el("div", { class: "why-terms" });
    const details = el(
      "details",
      {
        class: `why-row${chosen ? " chosen" : ""}${score.available === false ? " unavailable" : ""}`,
        dataset: { direction: score.key, chosen: String(chosen) },
        open: this.open.has(score.key),
      },
      el(
        "summary",
        {},
        el("span", { class: "why-title", title: score.title }, chosen ? icon("check") : null, score.title || score.key),
        el("span", { class: "num why-probability" }, percent(score.probability)),
        bar(score, scale),
        el("span", { class: "num why-score" }, signed(score.score)),
      ),
      body,
    );
    const fillTerms = () => body.childElementCount || body.append(this.terms(score, decision));
    if (details.open) fillTerms();
    details.addEventListener("toggle", () => {
      if (details.open) {
        this.open.add(score.key);
        fillTerms();
      } else this.open.delete(score.key);
    });
    return el("li", {}, details);
  }

  terms(score, decision) {
    const config = decision.config ?? {};
    const rows = score.prefix_terms.map((term) =>
      termRow(
        "prefix",
        [el("span", {}, `after ${this.titleOf(decision, term.source)}`), this.edgeLink(term)],
        `${term.weight.toFixed(2)} × ${signed(term.utility)}`,
        term.contribution,
      ),
    );
    rows.push(
      termRow(
        "value",
        [el("span", {}, "own value"), this.nodeLink(score)],
        `${config.beta ?? ""} × ${signed(score.value)}`,
        score.value_term,
      ),
      termRow(
        "match",
        [el("span", {}, triggersHeld(score))],
        `${config.gamma ?? ""} × ${(score.match ?? 0).toFixed(2)}`,
        score.match_term,
      ),
    );
    const held = (score.matched_triggers ?? []).map(conditionText);
    const failed = (score.unmatched_triggers ?? []).map(conditionText);
    return el(
      "div",
      {},
      score.available === false ? el("p", { class: "why-unavailable" }, score.unavailable_reason || "Not available.") : null,
      el("table", { class: "why-table" }, el("caption", { class: "visually-hidden" }, `Terms of ${score.title}`), el("tbody", {}, ...rows)),
      held.length ? el("p", { class: "why-triggers muted" }, `Holds: ${held.join("; ")}.`) : null,
      failed.length ? el("p", { class: "why-triggers muted" }, `Does not hold: ${failed.join("; ")}.`) : null,
    );
  }

  edgeLink(term) {
    if (!term.edge_id) return el("span", { class: "muted" }, "no such edge");
    return evidenceLink(`${this.urls.memory}?edge=${term.edge_id}`, term.n);
  }

  nodeLink(score) {
    return evidenceLink(`${this.urls.memory}?direction=${encodeURIComponent(score.key)}`, score.n);
  }

  strategies(detail) {
    const choice = detail.strategy_choice ?? {};
    const options = choice.scores ?? choice.options ?? [];
    if (!detail.strategy && options.length === 0) return null;
    const chosen = detail.strategy?.key;
    return el(
      "section",
      { class: "why-strategies" },
      el("h3", { class: "pane-heading" }, "Why this strategy"),
      choice.reason ? el("p", { class: "why-reason" }, choice.reason) : null,
      options.length
        ? el("ol", { class: "strategy-options" }, ...options.map((option) => strategyOption(option, option.key === chosen)))
        : null,
    );
  }
}

function bar(score, scale) {
  const segments = [
    ["prefix", sum(score.prefix_terms.map((term) => term.contribution))],
    ["value", score.value_term],
    ["match", score.match_term],
  ];
  let positive = 0;
  let negative = 0;
  const parts = segments.map(([name, value]) => {
    const width = Math.abs(value) * scale.unit;
    const from = value >= 0 ? scale.zero + positive : scale.zero - negative - width;
    if (value >= 0) positive += width;
    else negative += width;
    return el("i", {
      class: `term term-${name}`,
      style: { left: `${from}%`, width: `${width}%` },
      title: `${words(name)} ${signed(value)}`,
    });
  });
  return el(
    "span",
    { class: "why-bar", role: "img", "aria-label": segments.map(([name, value]) => `${name} ${signed(value)}`).join(", ") },
    el("i", { class: "why-zero", style: { left: `${scale.zero}%` } }),
    ...parts,
  );
}

/** One scale for all bars, in percent of the bar's width, with zero where the longest negative part ends. */
function scaleOf(scores) {
  let up = 0.001;
  let down = 0;
  for (const score of scores) {
    const values = [sum(score.prefix_terms.map((term) => term.contribution)), score.value_term, score.match_term];
    up = Math.max(up, sum(values.filter((value) => value > 0)));
    down = Math.max(down, -sum(values.filter((value) => value < 0)));
  }
  const unit = 100 / (up + down);
  return { unit, zero: down * unit };
}

function sum(values) {
  return values.reduce((total, value) => total + (value ?? 0), 0);
}

function termRow(name, label, formula, value) {
  return el(
    "tr",
    {},
    el("td", {}, el("i", { class: `swatch term-${name}` }), ...label.flatMap((part) => [part, " "])),
    el("td", { class: "num muted" }, formula),
    el("td", { class: "num" }, signed(value)),
  );
}

function triggersHeld({ matched_triggers: held = [], unmatched_triggers: failed = [] }) {
  const all = held.length + failed.length;
  return all ? `${held.length} of ${all} triggers hold` : "no triggers";
}

function evidenceLink(href, n) {
  return el("a", { href, class: "evidence-link", title: "Open the evidence in the memory" }, `n=${evidenceCount(n)}`);
}

/** "28 %, +0.31, n=4": its probability, posterior utility and evidence. */
function standing(option) {
  const parts = [option.probability === undefined ? null : percent(option.probability), signed(option.posterior ?? option.score)];
  if (option.n !== undefined) parts.push(`n=${evidenceCount(option.n)}`);
  return parts.filter(Boolean).join(", ");
}

function strategyOption(option, chosen) {
  const unavailable = option.usable === false || option.applicable === false;
  return el(
    "li",
    { class: `strategy-option${chosen ? " chosen" : ""}${unavailable ? " unavailable" : ""}`, title: option.reason || null },
    el("span", { class: "strategy-title" }, chosen ? icon("check") : null, option.title ?? option.key),
    el(
      "span",
      { class: "num muted" },
      unavailable ? "cannot be used now" : standing(option),
    ),
    unavailable && option.reason ? el("span", { class: "strategy-reason muted" }, option.reason) : null,
  );
}
