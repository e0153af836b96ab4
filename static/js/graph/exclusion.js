/** Taking one evidence row out of the statistics with a reason, and back in. Both stand in the history. */

import { el } from "../shared/dom.js";
import { post } from "../shared/rest.js";
import { toast } from "../toast.js";

/** A button for the row's list item; `onDone()` reads the numbers again. */
export function exclusionButton(row, onDone) {
  const verb = row.excluded ? "include" : "exclude";
  const button = el("button", { type: "button", class: "evidence-act", dataset: { act: verb } }, row.excluded ? "take back in" : "exclude");
  button.addEventListener("click", () => {
    const asked = form(row, verb, onDone);
    button.replaceWith(asked);
    asked.querySelector("input").focus();
  });
  return button;
}

function form(row, verb, onDone) {
  const reason = el("input", { class: "form-control form-control-sm", "aria-label": "Reason", placeholder: verb === "exclude" ? "Why: bad measurement, cheat, ..." : "Why", required: verb === "exclude", maxlength: 2000 });
  const send = async (event) => {
    event.preventDefault();
    try {
      await post(`/api/evidence/${verb}/`, { ids: [row.id], reason: reason.value.trim() });
      await onDone();
    } catch (error) {
      toast(error.message, "error");
    }
  };
  return el("form", { class: "exclude-form", onsubmit: send }, reason, el("button", { class: "btn btn-sm", type: "submit" }, verb === "exclude" ? "Exclude" : "Take back in"));
}
