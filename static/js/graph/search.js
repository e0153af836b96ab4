/** The search box over a bank: titles of directions and strategies, arrow keys, Enter selects, Esc clears. */

import { el, fill } from "../shared/dom.js";

const MOST = 12;

export function mountSearch({ input, list, model, onPick, onNeedle }) {
  let found = [];
  let at = 0;

  const draw = () => {
    fill(
      list,
      ...found.map((entry, position) =>
        el(
          "li",
          { role: "option", "aria-selected": String(position === at), class: position === at ? "active" : null, onmousedown: (event) => (event.preventDefault(), pick(entry)) },
          entry.title,
          el("span", { class: "muted" }, entry.about),
        ),
      ),
    );
    list.hidden = found.length === 0;
    input.setAttribute("aria-expanded", String(found.length > 0));
  };

  const close = () => {
    found = [];
    draw();
  };

  const pick = (entry) => {
    input.value = "";
    onNeedle("");
    close();
    input.blur();
    onPick(entry.selection);
  };

  const search = () => {
    const needle = input.value.trim().toLowerCase();
    onNeedle(needle);
    found = needle ? matches(model, needle) : [];
    at = 0;
    draw();
  };

  input.addEventListener("input", search);
  input.addEventListener("blur", close);
  input.addEventListener("focus", () => input.value && search());
  input.addEventListener("keydown", (event) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && found.length) {
      at = (at + move + found.length) % found.length;
      draw();
      event.preventDefault();
    } else if (event.key === "Enter" && found[at]) {
      pick(found[at]);
      event.preventDefault();
    } else if (event.key === "Escape") {
      input.value = "";
      onNeedle("");
      close();
    }
  });
  // On this page "/" finds in the graph; the capture phase comes before the frame's own handler.
  document.addEventListener(
    "keydown",
    (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
      event.preventDefault();
      input.focus();
    },
    { capture: true },
  );
}

function matches(model, needle) {
  const directions = [...model.directions.values()].map((row) => ({ title: row.title, about: "direction", selection: { kind: "direction", id: row.key } }));
  const strategies = [...model.strategies.values()].map((row) => ({
    title: row.title,
    about: model.directions.get(row.direction)?.title ?? row.direction,
    selection: { kind: "strategy", id: row.id },
  }));
  return [...directions, ...strategies].filter((entry) => entry.title.toLowerCase().includes(needle)).slice(0, MOST);
}
