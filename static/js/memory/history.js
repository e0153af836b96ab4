/** The history of a bank: who changed what, when and why; undo one change or everything since. */

import { relativeTime } from "../format.js";
import { el, fill, icon, pageData } from "../shared/dom.js";
import { get, post } from "../shared/rest.js";
import { toast } from "../toast.js";
import { Ledger, onKeys } from "./ledger.js";
import { fieldTable } from "./values.js";

const { bank, may_curate: mayCurate } = pageData("memory-page");

const ledger = new Ledger({
  name: "change",
  address: (by) => `/api/banks/${bank.id}/history/${by ? `?by=${by}` : ""}`,
  row: (change) => [
    el("span", { class: "ledger-title" }, change.sentence),
    relativeTime(change.at),
    el("span", { class: "ledger-under" }, who(change), change.reason && el("span", {}, change.reason), change.reverted_by.length > 0 && el("span", {}, "undone")),
  ],
  detail,
  empty: () => "Nobody has changed this bank yet.",
  undone: (change) => change.reverted_by.length > 0,
});

function who({ by, run }) {
  return run ? el("a", { href: `/runs/${run}/` }, `run ${run}`) : el("span", {}, by ?? "the system");
}

async function detail({ id }) {
  const change = await get(`/api/changes/${id}/`);
  return [
    el("h2", { class: "drawer-title" }, change.sentence),
    el("p", { class: "muted" }, who(change), ", ", relativeTime(change.at), change.reason ? `: ${change.reason}` : ""),
    change.conflicts.length > 0 && el("p", { class: "conflict-lead" }, icon("git-merge"), `Later changes build on this one: ${change.conflicts.map((later) => later.id).join(", ")}. Undo those first.`),
    ...actions(change),
    ...change.diff.flatMap((part) => [
      el("h3", { class: "pane-heading" }, `${part.label} (${part.kind}, ${part.status})`),
      fieldTable(`What changed of ${part.label}`, ["Field", "Before", "After"], part.fields),
    ]),
    ...change.marks.map((mark) => el("p", { class: "muted" }, `${mark.rows} evidence rows: ${JSON.stringify(mark.before)} became ${JSON.stringify(mark.after)}`)),
  ];
}

function actions(change) {
  const look = el("a", { class: "btn btn-sm", href: `/memory/${bank.id}/?at=${change.id}` }, icon("history"), "Graph as this change left it");
  if (!mayCurate) return [el("div", { class: "ledger-actions" }, look)];
  const reason = el("input", { class: "form-control form-control-sm", id: "undo-reason", placeholder: "Why (goes into the history)", "aria-label": "Why", maxlength: 2000 });
  const problem = el("p", { class: "form-error", role: "alert", id: "undo-error" });
  const button = (label, symbol, act, name) => el("button", { type: "button", class: "btn btn-sm", dataset: { act: name }, onclick: () => act(reason.value, problem) }, icon(symbol), label);
  return [
    el(
      "div",
      { class: "ledger-actions" },
      button("Undo this change", "arrow-back-up", (why) => undo(change, why, problem), "undo"),
      button("Bring the bank back to here", "rewind-backward-10", (why) => back(change, why, problem), "back"),
      look,
      reason,
    ),
    problem,
  ];
}

async function undo(change, reason, problem) {
  await done(() => post(`/api/changes/${change.id}/revert/`, { reason }), problem);
}

/** Everything later is taken back, unless somebody changed the bank since this page read it. */
async function back(change, reason, problem) {
  const newest = ledger.filter.value === "" ? ledger.items[0]?.id : undefined;
  await done(() => post(`/api/banks/${bank.id}/revert/`, { to: String(change.id), reason, ...(newest ? { seen: newest } : {}) }), problem);
}

async function done(call, problem) {
  fill(problem);
  try {
    const { change, notes } = await call();
    toast([change.sentence, ...notes].join(" "));
    ledger.selected = change.id;
    await ledger.load();
  } catch (error) {
    const later = error.body?.changes?.map((row) => `${row.id} (${row.sentence})`).join(", ");
    problem.textContent = later ? `${error.message} ${later}` : error.message;
  }
}

onKeys({ u: () => document.querySelector("[data-act=undo]")?.click() });
ledger.load();
