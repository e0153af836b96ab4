/** Judging a result again: the button, and the old and the new verdict in one table. */

import { outcomeBadge, speedup } from "../format.js";
import { el, icon, table } from "../shared/dom.js";
import { get, post } from "../shared/rest.js";
import { toast } from "../toast.js";

const OPEN = new Set(["waiting", "running"]);
const LOOK_AGAIN_MS = 3000;

/** What the Evaluation tab shows for `row`, an evaluation of `candidate`; null where nothing can be said or done. */
export async function reverifyPart(pane, candidate, row) {
  const { results } = await get(`${pane.urls.reverifications}?candidate=${candidate.id}`);
  const open = results.find((item) => OPEN.has(item.status));
  if (open) lookAgain(pane);
  const judged = results.filter((item) => item.after);
  const failed = results.find((item) => item.status === "failed");
  const parts = [
    judged.length ? comparison(judged) : null,
    results[0]?.status === "failed" ? el("p", { class: "eval-note eval-warning" }, icon("alert-triangle"), `Could not be judged again: ${failed.error}`) : null,
    bar(pane, row, open),
  ].filter(Boolean);
  return parts.length ? parts : null;
}

function bar(pane, row, open) {
  if (open) {
    const said = open.status === "running" ? "Being judged again now." : "Waits to be judged again, between the steps of runs.";
    return el("p", { class: "reverify-bar muted", role: "status" }, el("span", { class: "spinner-border spinner-border-sm", "aria-hidden": "true" }), said);
  }
  if (!pane.mayOperate) return null;
  const button = el("button", { type: "button", class: "btn btn-sm", dataset: { reverify: row.id }, onclick: () => ask(pane, row, button) }, icon("shield-check"), "Re-verify");
  return el("div", { class: "reverify-bar" }, button, el("span", { class: "muted" }, `Judges this plan again; the verdict of ${row.checker ? `checker ${row.checker}` : "the checker then"} stays beside the new one.`));
}

async function ask(pane, row, button) {
  button.disabled = true;
  try {
    await post(`${pane.urls.evaluation(row.id)}reverify/`);
    pane.choose({ asked: Date.now() });
  } catch (error) {
    button.disabled = false;
    toast(error.message, "error");
  }
}

/** No event tells that one waits or runs; its end comes as an event, and this looks for both. */
function lookAgain(pane) {
  clearTimeout(pane.timer);
  pane.timer = setTimeout(() => pane.choose({ asked: Date.now() }), LOOK_AGAIN_MS);
}

function comparison(judged) {
  const num = (value) => ({ value, class: "num" });
  const node = table(
    "Verdicts of then and now",
    ["", "Verdict", num("Over eager"), num("Checker"), "Device"],
    judged.flatMap(({ before, after }) => [line("then", before, num), line("now", after, num)]),
    { className: "compare-table" },
  );
  judged.forEach(({ finding }, index) => {
    if (finding === "refuted") node.tBodies[0].rows[2 * index + 1].classList.add("is-refuted");
  });
  return el(
    "div",
    {},
    node,
    ...judged.map(({ finding, sentence, after }) => el("p", { class: `eval-note${finding === "refuted" ? " text-refuted" : ""}`, dataset: { finding } }, `Checker ${after.checker}: ${sentence}`)),
  );
}

function line(when, verdict, num) {
  return [when, outcomeBadge(verdict.outcome), num(speedup(verdict.speedup, verdict.speedup_low, verdict.speedup_high)), num(verdict.checker || "–"), verdict.device_key.replace(/^[^:]*:/, "")];
}
