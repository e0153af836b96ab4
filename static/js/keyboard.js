// Keyboard first: ? help, / search, j k Enter in tables, g then a letter for a section, n new, t theme.

const SECTIONS = { r: "/runs/", o: "/operators/", m: "/memory/", d: "/devices/", s: "/settings/" };
const NEW = { "/operators/": "/operators/new/" };

function typing(event) {
  const target = event.target;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

function rows() {
  return [...document.querySelectorAll("tr[data-href], [data-row]")].filter((row) => row.offsetParent !== null);
}

function moveRow(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.classList.contains("is-current"));
  const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step))];
  for (const row of all) row.classList.toggle("is-current", row === next);
  next.scrollIntoView({ block: "nearest" });
  next.dispatchEvent(new CustomEvent("htam:current", { bubbles: true }));
}

function openRow() {
  const row = document.querySelector("tr.is-current[data-href]");
  if (!row) return false;
  window.location.assign(row.dataset.href);
  return true;
}

function newOfSection() {
  const link = document.querySelector("[data-key-new]");
  if (link) return link.click();
  const start = Object.keys(NEW).find((prefix) => window.location.pathname.startsWith(prefix));
  window.location.assign(start ? NEW[start] : "/runs/new/");
}

function focusSearch() {
  const field = document.getElementById("search");
  field?.focus();
  field?.select();
}

export function startKeyboard({ switchTheme }) {
  const help = document.getElementById("help-dialog");
  const toggleHelp = () => (help.open ? help.close() : help.showModal());
  let goUntil = 0;
  document.getElementById("help-button")?.addEventListener("click", toggleHelp);
  const plain = {
    "?": toggleHelp,
    "/": focusSearch,
    j: () => moveRow(1),
    k: () => moveRow(-1),
    n: newOfSection,
    t: switchTheme,
    g: () => (goUntil = Date.now() + 1500),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "Escape" && typing(event)) return event.target.blur();
    if (typing(event)) return;
    if (Date.now() < goUntil && SECTIONS[event.key]) {
      goUntil = 0;
      return window.location.assign(SECTIONS[event.key]);
    }
    if (event.key === "Enter" && event.target === document.body && openRow()) return event.preventDefault();
    const action = plain[event.key];
    if (!action || (help.open && event.key !== "?")) return;
    event.preventDefault();
    action();
  });
}
