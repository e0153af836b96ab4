// What every page's frame does: theme, clock texts, worker heartbeat, keyboard, copy buttons.
import { ago } from "./format.js";
import { startKeyboard } from "./keyboard.js";
import { toast } from "./toast.js";
import { watchWorkers } from "./workers.js";

export function switchTheme() {
  const root = document.documentElement;
  const next = root.getAttribute("data-bs-theme") === "dark" ? "light" : "dark";
  root.setAttribute("data-bs-theme", next);
  try {
    localStorage.setItem("htam-theme", next);
  } catch {
    // Without storage the choice lasts for this page.
  }
  document.dispatchEvent(new CustomEvent("htam:theme", { detail: next }));
}

function refreshTimes() {
  for (const node of document.querySelectorAll("time[data-ago]")) {
    node.textContent = ago((Date.now() - new Date(node.dateTime).getTime()) / 1000);
  }
}

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  const text = source ? (source.value ?? source.textContent) : "";
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    toast("The browser refused the clipboard; select the text instead.", "error");
  }
}

function openRows(event) {
  const row = event.target.closest("tr[data-href]");
  if (!row || event.target.closest("a, button, input, label")) return;
  if (window.getSelection().toString()) return;
  if (event.metaKey || event.ctrlKey) window.open(row.dataset.href);
  else window.location.assign(row.dataset.href);
}

document.getElementById("theme-switch")?.addEventListener("click", switchTheme);
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
  else openRows(event);
});
document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});
setInterval(refreshTimes, 10000);
startKeyboard({ switchTheme });
watchWorkers();
