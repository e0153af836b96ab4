/**
 * DOM from plain data. Strings become text nodes, so nothing that a model, a compiler or an operator file wrote is
 * ever parsed as HTML.
 */

/** `el("td", {class: "num", dataset: {id: 3}, onclick: f}, "text", child, null)`; null and false children are left out. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "dataset") Object.assign(node.dataset, value);
    else if (name === "style") Object.assign(node.style, value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...present(children));
  return node;
}

/** Replace what `node` holds. */
export function fill(node, ...children) {
  node.replaceChildren(...present(children));
  return node;
}

/** A Tabler icon, invisible to screen readers: the word beside it says the same. */
export function icon(name, extra = "") {
  return el("i", { class: `ti ti-${name} ${extra}`.trim(), "aria-hidden": "true" });
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

/** True while the person is typing somewhere, so that single-key shortcuts stay out of the way. */
export function isTyping(event) {
  const target = event.target;
  return (
    event.ctrlKey || event.metaKey || event.altKey ||
    (target instanceof HTMLElement &&
      (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)))
  );
}

/** The value of a CSS custom property as it stands under the current theme. */
export function cssVariable(name, fallback) {
  return getComputedStyle(document.body).getPropertyValue(name).trim() || fallback;
}

/** Call `callback` whenever the page turns light or dark. */
export function onThemeChange(callback) {
  new MutationObserver(callback).observe(document.documentElement, {
    attributes: true,
    attributeFilter: ["data-bs-theme"],
  });
  new MutationObserver(callback).observe(document.body, { attributes: true, attributeFilter: ["data-bs-theme"] });
}

function present(children) {
  return children
    .flat()
    .filter((child) => child !== null && child !== undefined && child !== false && child !== "")
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}
