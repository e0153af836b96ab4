// One operator: highlighted code, and a reload once the inspection is through.
import { api } from "../api.js";

const EVERY_MS = 2000;

function highlight() {
  if (!window.hljs) return;
  for (const block of document.querySelectorAll("code[data-highlight]")) window.hljs.highlightElement(block);
}

async function waitForInspection(root) {
  const before = root.dataset.status;
  try {
    const operator = await api("GET", `/api/operators/${root.dataset.id}/`);
    if (operator.status !== before) return window.location.reload();
  } catch {
    // The next round asks again.
  }
  setTimeout(() => waitForInspection(root), EVERY_MS);
}

highlight();
const root = document.getElementById("operator");
if (root.dataset.status === "pending") setTimeout(() => waitForInspection(root), EVERY_MS);
