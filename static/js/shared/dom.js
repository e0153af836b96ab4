/**
 * DOM from plain data. Strings become text nodes, so nothing that a model, a compiler or an operator file wrote is
 * ever parsed as HTML.
 */

import { el as plainElement, icon } from "../format.js";

export { icon };

/** `el("td", {class: "num", dataset: {id: 3}, onclick: f}, "text", child)`; null, false and "" children are left out. */
export function el(tag, { dataset = {}, style = {}, ...attributes } = {}, ...children) {
  const node = plainElement(tag, attributes, ...present(children));
  Object.assign(node.dataset, dataset);
  Object.assign(node.style, style);
  return node;
}

/** Replace what `node` holds. */
export function fill(node, ...children) {
  node.replaceChildren(...present(children));
  return node;
}

/** What a panel shows while it has nothing: one sentence and, at most, one action. */
export function notice(text, { symbol = null, action = null, tone = "" } = {}) {
  return el(
    "div",
    { class: `pane-notice ${tone}`.trim(), role: tone === "error" ? "alert" : null },
    symbol && icon(symbol),
    el("span", {}, text),
    action,
  );
}

/** The JSON that the server left in a `json_script` element. */
export function pageData(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

/** A table from a header row and rows of cells; a cell is text, a node, or `{value, class}`. */
export function table(caption, headers, rows, { className = "" } = {}) {
  const cell = (tag) => (content) => {
    const plain = content === null || typeof content !== "object" || content instanceof Node;
    return plain
      ? el(tag, tag === "th" ? { scope: "col" } : {}, content)
      : el(tag, { class: content.class, ...(tag === "th" ? { scope: "col" } : {}) }, content.value);
  };
  return el(
    "table",
    { class: `table table-sm pane-table ${className}`.trim() },
    el("caption", { class: "visually-hidden" }, caption),
    el("thead", {}, el("tr", {}, ...headers.map(cell("th")))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell("td"))))),
  );
}

/** Run `callback` once per animation frame however often it is asked for; at once where the page is hidden. */
export function perFrame(callback) {
  let waiting = false;
  const run = () => {
    waiting = false;
    callback();
  };
  return () => {
    if (waiting) return;
    waiting = true;
    if (document.hidden) setTimeout(run, 100);
    else requestAnimationFrame(run);
  };
}

/** The value of a CSS custom property as it stands under the current theme. */
export function cssVariable(name, fallback) {
  return getComputedStyle(document.body).getPropertyValue(name).trim() || fallback;
}

/** Call `callback` whenever the page turns light or dark. */
export function onThemeChange(callback) {
  document.addEventListener("htam:theme", callback);
}

function present(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false && child !== "")
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}
