/** How the memory graph looks: sizes by tries, colours by posterior utility, edges by utility and evidence. */

import { cssVariable } from "../shared/dom.js";

const RED = { light: [176, 32, 31], dark: [255, 151, 146] };
const GREY = { light: [148, 154, 162], dark: [110, 118, 128] };
const GREEN = { light: [19, 122, 62], dark: [110, 215, 149] };

/** Colour of a utility in -1..1: red through grey to green. Half a unit is already nearly full colour. */
export function utilityColour(utility) {
  const theme = isDark() ? "dark" : "light";
  const value = Math.max(-1, Math.min(1, utility ?? 0));
  const strength = Math.min(1, Math.sqrt(Math.abs(value) / 0.6));
  const end = (value < 0 ? RED : GREEN)[theme];
  const mixed = GREY[theme].map((from, channel) => Math.round(from + (end[channel] - from) * strength));
  return `rgb(${mixed.join(",")})`;
}

/** Diameter in pixels of a direction with `tries` tries. */
export function nodeSize(tries, { small = 14, large = 40 } = {}) {
  return small + (large - small) * Math.min(1, Math.log2(1 + (tries ?? 0)) / 7);
}

/** Width in pixels of an edge with `n` pieces of evidence. */
export function edgeWidth(n) {
  return 1 + 3.5 * Math.min(1, Math.log2(1 + (n ?? 0)) / 6);
}

/** An edge shows more the more it is worth and the more is known about it. */
export function edgeOpacity(utility, n) {
  const known = (n ?? 0) > 0 ? 0.25 : 0;
  return Math.min(0.9, 0.1 + known + 0.45 * Math.abs(utility ?? 0));
}

export function isDark() {
  return document.documentElement.getAttribute("data-bs-theme") === "dark";
}

/** Cytoscape's style sheet; `compact` is the small graph of the run page. */
export function styleSheet({ compact = false } = {}) {
  const text = cssVariable("--htam-text", "#1c2128");
  const muted = cssVariable("--htam-muted", "#5c646f");
  const ground = cssVariable("--htam-surface", "#fff");
  const accent = cssVariable("--htam-accent", "#1557b0");
  const font = compact ? 10 : 12;
  return [
    {
      selector: "node",
      style: {
        width: "data(size)",
        height: "data(size)",
        "background-color": "data(colour)",
        "border-width": 1,
        "border-color": ground,
        label: "data(label)",
        color: text,
        "font-size": font,
        "font-family": cssVariable("--tblr-font-sans-serif", "sans-serif"),
        "text-valign": "bottom",
        "text-margin-y": 3,
        "text-wrap": "wrap",
        "text-max-width": compact ? 92 : 130,
        "text-background-color": ground,
        "text-background-opacity": 0.75,
        "text-background-padding": 1,
        "min-zoomed-font-size": 5,
      },
    },
    {
      selector: "node.start",
      style: { shape: "round-rectangle", width: 38, height: 16, "background-color": muted, color: ground, "text-valign": "center", "text-margin-y": 0, "text-background-opacity": 0, "font-size": compact ? 9 : 11 },
    },
    { selector: "node.strategy", style: { shape: "round-rectangle", "font-size": 11, "text-max-width": 118, "min-zoomed-font-size": 7 } },
    { selector: "node.retired", style: { opacity: 0.45, "border-style": "dashed", "border-color": muted } },
    {
      selector: "edge",
      style: {
        width: "data(width)",
        opacity: "data(opacity)",
        "line-color": "data(colour)",
        "target-arrow-color": "data(colour)",
        "target-arrow-shape": "triangle",
        "arrow-scale": compact ? 0.6 : 0.8,
        "curve-style": "bezier",
        "control-point-step-size": compact ? 22 : 34,
        "loop-sweep": "40deg",
        "source-distance-from-node": 3,
        "target-distance-from-node": 3,
      },
    },
    { selector: "edge.belongs", style: { "target-arrow-shape": "none", "line-style": "dotted", opacity: 0.6, width: 1, "line-color": muted, "curve-style": "straight" } },
    { selector: "edge.retired", style: { "line-style": "dashed" } },
    { selector: "edge.weak", style: { display: "none" } },
    { selector: ".dimmed", style: { opacity: 0.08 } },
    { selector: "node.dimmed", style: { opacity: 0.3 } },
    {
      selector: "edge.path",
      style: {
        width: 2.5,
        opacity: 1,
        "line-color": accent,
        "target-arrow-color": accent,
        label: "data(steps)",
        "font-size": compact ? 10 : 12,
        "font-weight": "bold",
        color: accent,
        "text-background-color": ground,
        "text-background-opacity": 1,
        "text-background-padding": 2,
        "text-background-shape": "roundrectangle",
        "z-index": 10,
        "z-index-compare": "manual",
      },
    },
    { selector: "node.visited", style: { "border-width": 2, "border-color": accent } },
    { selector: "node.lit", style: { "border-width": 4, "border-color": accent, "font-weight": "bold", "underlay-color": accent, "underlay-opacity": 0.22, "underlay-padding": 7 } },
    { selector: "edge.lit", style: { width: 4.5, "underlay-color": accent, "underlay-opacity": 0.22, "underlay-padding": 4 } },
    { selector: "node:selected", style: { "border-width": 3, "border-color": accent } },
    { selector: "edge:selected", style: { "line-color": accent, "target-arrow-color": accent, opacity: 1, width: 3 } },
    { selector: "node.found", style: { "border-width": 4, "border-color": cssVariable("--v-compile-error", "#9a4a05") } },
  ];
}
