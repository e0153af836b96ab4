// Short notices in the corner.
import { el } from "./format.js";

export function toast(text, kind = "info") {
  const box = document.getElementById("toasts");
  const node = el(
    "div",
    { class: `toast show htam-toast htam-toast-${kind}`, role: kind === "error" ? "alert" : "status" },
    el("div", { class: "toast-body" }, text),
  );
  box.append(node);
  setTimeout(() => node.remove(), kind === "error" ? 8000 : 4000);
}
