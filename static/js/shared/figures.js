/** Figures that only the live pages show; times, ratios and sizes are in ../format.js. */

import { DASH, interval, ratio } from "../format.js";

const missing = (value) => value === null || value === undefined || !Number.isFinite(value);

/** Seconds of wall clock: "0.42 s", "12 s", "3 min 05 s". */
export function seconds(value) {
  if (missing(value)) return DASH;
  if (value < 0.005) return "<0.01 s";
  if (value < 1) return `${value.toFixed(2)} s`;
  if (value < 10) return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

/** "1.84x [1.79, 1.90]" as plain text. */
export function ratioWithInterval(value, low, high) {
  return `${ratio(value)} ${interval(low, high)}`.trim();
}

/** A utility or a term of a score with its sign: "+0.31", "−0.20", "0.00". */
export function signed(value, digits = 2) {
  if (missing(value)) return DASH;
  const text = Math.abs(value).toFixed(digits);
  if (Number(text) === 0) return text;
  return `${value < 0 ? "\u2212" : "+"}${text}`;
}

/** 0..1 as "42 %". */
export function percent(value) {
  if (missing(value)) return DASH;
  const hundred = value * 100;
  return `${hundred < 10 && hundred > 0 ? hundred.toFixed(1) : Math.round(hundred)} %`;
}

/** Evidence counts: whole tries as they are, weighted ones with one decimal. */
export function evidenceCount(value) {
  if (missing(value)) return DASH;
  return Number.isInteger(value) ? String(value) : value.toFixed(1);
}

/** Whole numbers with thin spaces between thousands. */
export function count(value) {
  return missing(value) ? DASH : Number(value).toLocaleString("en-US").replaceAll(",", "\u2009");
}

/** "12:03:22.123" in the reader's own time zone. */
export function clock(iso) {
  if (!iso) return "";
  const date = new Date(iso);
  const pad = (value, width = 2) => String(value).padStart(width, "0");
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => pad(part)).join(":");
  return `${time}.${pad(date.getMilliseconds(), 3)}`;
}

/** snake_case or kebab-case as words with a capital: "last_verdict" becomes "Last verdict". */
export function words(name) {
  const text = String(name).replaceAll(/[_-]+/g, " ").trim();
  return text.charAt(0).toUpperCase() + text.slice(1);
}
