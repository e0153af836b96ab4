/** The review queue: what runs propose, with their evidence. j/k move, a accepts, e edits, x rejects, u undoes. */

import { outcomeBadge, relativeTime } from "../format.js";
import { el, icon, pageData, table } from "../shared/dom.js";
import { signed } from "../shared/figures.js";
import { post } from "../shared/rest.js";
import { toast } from "../toast.js";
import { Ledger, onKeys } from "./ledger.js";
import { fieldTable } from "./values.js";

const { bank, may_curate: mayCurate } = pageData("memory-page");
const EDITABLE = new Set(["title", "edit_pattern", "applies_when", "rationale", "key"]);
const LINES = new Set(["risks", "checks", "goals"]);
let lastDecision = null;
let editing = false;

const ledger = new Ledger({
  name: "proposal",
  address: (status) => `/api/proposals/?bank=${bank.id}&status=${status}`,
  row: (proposal) => [
    el("span", { class: "ledger-title" }, proposal.title),
    relativeTime(proposal.created_at),
    el(
      "span",
      { class: "ledger-under" },
      el("span", {}, proposal.kind_label),
      el("span", {}, evidenceText(proposal.evidence)),
      proposal.run && el("a", { href: `/runs/${proposal.run}/` }, `run ${proposal.run}`),
      proposal.status !== "pending" && el("span", {}, `${proposal.status_label}${proposal.decided_by ? ` by ${proposal.decided_by}` : ""}`),
    ),
  ],
  detail: (proposal) => detail(proposal),
  empty: (status) => (status === "pending" ? "Nothing waits. Runs propose what they learn: new strategies, edits and transitions." : "Nothing was decided yet."),
});

function evidenceText({ confirmed, improved, operators, speedup_median: median }) {
  const ratio = median === null ? "" : `, median ${median.toFixed(2)}x`;
  return `${improved} of ${confirmed} steps improved${operators ? `, ${operators} operators` : ""}${ratio}`;
}

function detail(proposal) {
  const open = proposal.status === "pending" && mayCurate;
  return [
    el("div", { class: "drawer-kind muted" }, proposal.kind_label, proposal.direction ? ` in ${proposal.direction.title}` : "", proposal.edge ? `: ${proposal.edge.source_key} to ${proposal.edge.target_key}` : ""),
    el("h2", { class: "drawer-title" }, proposal.title),
    el("p", { class: "lead-text" }, proposal.rationale),
    proposal.blocked && el("p", { class: "conflict-lead" }, icon("lock"), proposal.blocked),
    open && actions(),
    proposal.decision_reason && el("p", { class: "muted" }, `Reason: ${proposal.decision_reason}`),
    fieldTable(
      "What would be written",
      ["Field", "Now", proposal.status === "pending" ? "Proposed" : "Decided"],
      proposal.fields.map(({ field, now, proposed, decided }) => ({ field, before: now, after: decided ?? proposed, input: editing && open ? input(field, proposed) : null })),
    ),
    el("h3", { class: "pane-heading" }, `Evidence: ${evidenceText(proposal.evidence)}`),
    steps(proposal.evidence.steps),
  ].filter(Boolean);
}

function input(field, value) {
  if (LINES.has(field)) return el("textarea", { class: "form-control", dataset: { edit: field }, "aria-label": field }, (value ?? []).join("\n"));
  if (!EDITABLE.has(field)) return null;
  return el("textarea", { class: "form-control", dataset: { edit: field }, "aria-label": field }, value ?? "");
}

function actions() {
  const button = (name, label, symbol, act, primary) => el("button", { type: "button", class: `btn btn-sm${primary ? " btn-primary" : ""}`, dataset: { act: name }, onclick: act }, icon(symbol), label);
  return el(
    "div",
    {},
    el(
      "div",
      { class: "ledger-actions" },
      button("accept", editing ? "Accept as edited" : "Accept", "check", accept, true),
      button("edit", editing ? "Leave as proposed" : "Edit", "pencil", edit),
      button("reject", "Reject", "x", reject),
      el("input", { class: "form-control form-control-sm", id: "decision-reason", placeholder: "Why (goes into the history)", "aria-label": "Why", maxlength: 2000 }),
    ),
    el("p", { class: "form-error", role: "alert", id: "decision-error" }),
  );
}

function steps(rows) {
  if (rows.length === 0) return el("p", { class: "muted" }, "None.");
  const num = (value) => ({ value, class: "num" });
  return table(
    "Steps behind it",
    ["Step", "Verdict", num("Ratio"), num("Utility"), "Device", "Setting", "When"],
    rows.map((row) => [
      row.url ? el("a", { href: row.url }, `run ${row.run}, step ${row.step}`) : "imported",
      outcomeBadge(row.verdict === "correct" && row.improved ? "faster" : row.verdict),
      num(row.speedup === null ? "\u2013" : `${row.speedup.toFixed(2)}x`),
      num(signed(row.utility)),
      row.device.replace(/^[^:]*:/, ""),
      row.excluded ? `excluded: ${row.excluded_reason}` : row.setting,
      relativeTime(row.at),
    ]),
  );
}

function edited() {
  const changes = {};
  for (const node of document.querySelectorAll("[data-edit]")) {
    const { edit: field } = node.dataset;
    const value = LINES.has(field) ? node.value.split("\n").map((line) => line.trim()).filter(Boolean) : node.value.trim();
    const proposed = ledger.current.fields.find((row) => row.field === field).proposed;
    if (JSON.stringify(value) !== JSON.stringify(proposed)) changes[field] = value;
  }
  return changes;
}

function edit() {
  editing = !editing;
  ledger.select(ledger.selected).then(() => document.querySelector("[data-edit]")?.focus());
}

function accept() {
  const { id, version } = ledger.current;
  return decide(id, "accept", { changes: edited(), ...(version ? { version } : {}) });
}

function reject() {
  return decide(ledger.selected, "reject", {});
}

async function decide(id, verb, body) {
  try {
    const { change } = await post(`/api/proposals/${id}/${verb}/`, { ...body, reason: document.getElementById("decision-reason").value });
    lastDecision = change.id;
    editing = false;
    toast(`${change.sentence} Press u to undo.`);
    await ledger.load();
  } catch (error) {
    document.getElementById("decision-error").textContent = error.message;
  }
}

async function undo() {
  if (!lastDecision) return toast("Nothing was decided on this page yet.");
  try {
    await post(`/api/changes/${lastDecision}/revert/`, { reason: "" });
    lastDecision = null;
    toast("Undone: it waits again.");
    await ledger.load();
  } catch (error) {
    toast(error.message, "error");
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && editing && !event.target.matches?.("textarea")) edit();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && editing) accept();
});
const press = (name) => () => document.querySelector(`[data-act=${name}]`)?.click();
onKeys({ a: press("accept"), e: press("edit"), x: press("reject"), u: () => mayCurate && undo() });
ledger.load();
