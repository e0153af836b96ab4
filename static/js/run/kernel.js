/** The Kernel tab: the whole plan of one attempt, highlighted, with a copy button. */

import { outcomeBadge } from "../format.js";
import { el, icon, notice } from "../shared/dom.js";
import { candidate, chosenCandidate, stepDetail } from "./detail.js";
import { Pane } from "./pane.js";

export class KernelPane {
  constructor(root, store, urls) {
    this.store = store;
    this.urls = urls;
    this.attempt = null; // a candidate id that a person chose, else the step's own
    this.pane = new Pane(root, () => this.draw());
  }

  show() {
    const step = this.store.current;
    this.pane.show(step ? `${step.id}|${step.stage}|${step.attempts ?? ""}|${step.outcome}|${this.attempt}` : "none");
  }

  async draw() {
    const step = this.store.current;
    if (!step) return notice("The first step has not begun.", { symbol: "hourglass" });
    const detail = await stepDetail(this.store, this.urls, step);
    const chosen = detail.candidates?.find((item) => item.id === this.attempt) ?? chosenCandidate(detail);
    if (!chosen) return notice("No plan is written yet.", { symbol: "file-code" });
    const { plan } = await candidate(this.urls, chosen.id);
    return [this.toolbar(detail, chosen, plan), ...sections(plan, chosen.language)];
  }

  toolbar(detail, chosen, plan) {
    const attempts = detail.candidates.length > 1 ? attemptPicker(detail.candidates, chosen.id, (id) => this.choose(id)) : null;
    return el(
      "div",
      { class: "pane-toolbar" },
      attempts ?? el("span", { class: "toolbar-label" }, chosen.language === "opencl" ? "OpenCL plan" : "CUDA plan"),
      el("span", { class: "hash", title: `Plan hash ${chosen.plan_hash ?? ""}` }, (chosen.plan_hash ?? "").slice(0, 10)),
      copyButton(plan),
    );
  }

  choose(id) {
    this.attempt = id;
    this.show();
  }
}

/** Buttons "Attempt 0", "Repair 1", ... with each one's verdict. Shared with the Evaluation tab. */
export function attemptPicker(candidates, chosen, choose) {
  return el(
    "div",
    { class: "btn-group", role: "group", "aria-label": "Attempt" },
    ...candidates.map((item) =>
      el(
        "button",
        {
          type: "button",
          class: `btn btn-sm${item.id === chosen ? " active" : ""}`,
          "aria-pressed": String(item.id === chosen),
          onclick: () => choose(item.id),
        },
        item.attempt === 0 ? "First attempt" : `Repair ${item.attempt}`,
        " ",
        verdictOf(item),
      ),
    ),
  );
}

function verdictOf(item) {
  const outcome = item.evaluations?.at(-1)?.outcome;
  return outcome ? outcomeBadge(outcome) : null;
}

function copyButton(text) {
  const label = el("span", {}, "Copy");
  return el(
    "button",
    {
      type: "button",
      class: "btn btn-sm ms-auto",
      onclick: async () => {
        label.textContent = (await copy(text)) ? "Copied" : "Select and copy by hand";
        setTimeout(() => (label.textContent = "Copy"), 2000);
      },
    },
    icon("copy"),
    label,
  );
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** The plan in its parts: device code as C++, the rest as Python. A plan of another shape is shown whole. */
function sections(plan, language) {
  const parts = /^([\s\S]*?kernels\s*=\s*r?)("""|''')([\s\S]*?)\2([\s\S]*)$/.exec(plan);
  if (!parts) return [code(plan, "python")];
  const [, before, quote, kernels, after] = parts;
  return [
    heading(language === "opencl" ? "Device code (OpenCL C)" : "Device code (CUDA C++)"),
    code(kernels.replace(/^\n/, ""), "cpp"),
    heading("Host plan"),
    code(`${before}${quote} ... ${quote}${after}`.trim(), "python"),
  ];
}

function heading(text) {
  return el("h3", { class: "pane-heading" }, text);
}

/** A highlighted block. highlight.js reads the text of a node whose content is text, and escapes what it writes. */
export function code(text, language) {
  const block = el("code", { class: `language-${language}` }, text);
  window.hljs?.highlightElement(block);
  return el("pre", { class: "code-block", tabindex: "0" }, block);
}
