// The same reading of numbers as htam_site/figures.py: three significant digits, a unit, doubt beside every ratio.

export const DASH = "\u2013";

// Outcome -> [label, colour class, Tabler icon], as in optimizer/choices.py (a test compares the two).
export const OUTCOMES = {
  faster: ["Faster", "faster", "rocket"],
  correct: ["Correct", "correct", "check"],
  slower: ["Slower", "slower", "arrow-down"],
  wrong: ["Wrong", "wrong", "x"],
  nondeterministic: ["Nondeterministic", "wrong", "arrows-shuffle"],
  compile_error: ["Compile error", "compile-error", "code-off"],
  launch_error: ["Launch error", "compile-error", "player-eject"],
  crashed: ["Crashed", "crashed", "bolt"],
  timeout: ["Timeout", "crashed", "clock-x"],
  out_of_memory: ["Out of memory", "crashed", "database-x"],
  rejected: ["Rejected", "rejected", "shield-x"],
  quarantined: ["Quarantined", "rejected", "shield-lock"],
  no_proposal: ["No proposal", "slower", "ban"],
};

const missing = (value) => value === null || value === undefined || !Number.isFinite(value);

export function significant(value, digits = 3) {
  if (missing(value)) return DASH;
  if (value === 0) return "0";
  const rounded = Number(value.toExponential(digits - 1));
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(rounded))));
  return rounded.toFixed(places);
}

/** A time in microseconds, as us, ms or s. */
export function durationUs(us) {
  if (missing(us)) return DASH;
  if (us < 999.5) return `${significant(us)} us`;
  if (us < 999500) return `${significant(us / 1e3)} ms`;
  return `${significant(us / 1e6)} s`;
}

function ratioDigits(value) {
  return value < 100 ? value.toFixed(2) : significant(value);
}

export function ratio(value) {
  return missing(value) ? DASH : `${ratioDigits(value)}x`;
}

export function interval(low, high) {
  return missing(low) || missing(high) ? "" : `[${ratioDigits(low)}, ${ratioDigits(high)}]`;
}

export function insideNoise(low, high) {
  return missing(low) || missing(high) || (low <= 1 && high >= 1);
}

export function sizeBytes(count) {
  if (missing(count)) return DASH;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (count < 1024) return unit === "B" ? `${count.toFixed(0)} B` : `${significant(count)} ${unit}`;
    count /= 1024;
  }
  return `${significant(count)} TiB`;
}

export function ago(seconds) {
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${seconds.toFixed(0)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

/** An element: el("span", {class: "x", title: "y"}, "text", child...). Text is always escaped. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function icon(name) {
  return el("i", { class: `ti ti-${name}`, "aria-hidden": "true" });
}

/** Badge of an outcome: icon and word in its colour. */
export function outcomeBadge(outcome, title) {
  const [label, css, symbol] = OUTCOMES[outcome] || [outcome || "Pending", "slower", "dots"];
  return el("span", { class: `outcome outcome-${css}`, title: title || label, "data-outcome": outcome }, icon(symbol), label);
}

/** `1.84x [1.79, 1.90]`, muted when the interval contains 1. */
export function speedup(value, low, high) {
  if (missing(value)) return el("span", { class: "speedup muted" }, DASH);
  const noise = insideNoise(low, high);
  return el(
    "span",
    {
      class: `speedup${noise ? " muted" : ""}`,
      title: noise ? "Inside noise: the 95 % interval contains 1" : "Median ratio, 95 % bootstrap interval",
    },
    `${ratio(value)} `,
    el("small", {}, interval(low, high)),
  );
}

/** A relative time with the absolute one on hover; frame.js keeps it current. */
export function relativeTime(iso) {
  if (!iso) return el("span", { class: "muted" }, DASH);
  const when = new Date(iso);
  return el(
    "time",
    { datetime: iso, title: `${when.toISOString().slice(0, 19).replace("T", " ")} UTC`, "data-ago": true },
    ago((Date.now() - when.getTime()) / 1000),
  );
}
