/** Numbers as the pages show them: a unit on each, three significant digits, an interval where there is one. */

const NONE = "–";

/** 3 significant digits without exponent for the sizes that occur here. */
export function significant(value, digits = 3) {
  if (!Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.max(0, digits - 1 - magnitude));
}

/** Microseconds as "12.3 µs", "4.56 ms" or "1.20 s". */
export function microseconds(value) {
  if (value === null || value === undefined) return NONE;
  if (value < 1000) return `${significant(value)} µs`;
  if (value < 1e6) return `${significant(value / 1e3)} ms`;
  return `${significant(value / 1e6)} s`;
}

/** Seconds of wall clock: "0.42 s", "12 s", "3 min 05 s". */
export function seconds(value) {
  if (value === null || value === undefined) return NONE;
  if (value < 0.005) return "<0.01 s";
  if (value < 10) return `${value.toFixed(value < 1 ? 2 : 1)} s`;
  if (value < 60) return `${Math.round(value)} s`;
  const whole = Math.round(value);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

/** "1.84x". */
export function speedup(value) {
  if (value === null || value === undefined) return NONE;
  return `${value.toFixed(value < 10 ? 2 : 1)}x`;
}

/** "1.84x [1.79, 1.90]", or only the ratio where there is no interval. */
export function speedupInterval(value, low, high) {
  if (value === null || value === undefined) return NONE;
  if (low === null || low === undefined || high === null || high === undefined) return speedup(value);
  const digits = value < 10 ? 2 : 1;
  return `${speedup(value)} [${low.toFixed(digits)}, ${high.toFixed(digits)}]`;
}

/** A utility or a score's term with its sign: "+0.31", "−0.20", "0.00". */
export function signed(value, digits = 2) {
  if (value === null || value === undefined) return NONE;
  const text = Math.abs(value).toFixed(digits);
  if (Number(text) === 0) return text;
  return `${value < 0 ? "−" : "+"}${text}`;
}

/** 0..1 as "42 %". */
export function percent(value) {
  if (value === null || value === undefined) return NONE;
  const hundred = value * 100;
  return `${hundred < 10 && hundred > 0 ? hundred.toFixed(1) : Math.round(hundred)} %`;
}

/** Bytes as "8.0 kB", "1.50 GB" (powers of 1000, as device peaks are given). */
export function bytes(value) {
  if (value === null || value === undefined) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let scaled = value;
  let unit = 0;
  while (scaled >= 1000 && unit < units.length - 1) {
    scaled /= 1000;
    unit += 1;
  }
  return `${unit ? significant(scaled) : scaled} ${units[unit]}`;
}

/** Whole numbers with thin spaces between thousands. */
export function count(value) {
  if (value === null || value === undefined) return NONE;
  return Number(value).toLocaleString("en-US").replaceAll(",", "\u2009");
}

/** "just now", "3 min ago", "2 h ago", or the date. */
export function relative(iso, now = Date.now()) {
  if (!iso) return NONE;
  const passed = (now - Date.parse(iso)) / 1000;
  if (passed < 10) return "just now";
  if (passed < 60) return `${Math.floor(passed)} s ago`;
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 86400) return `${Math.floor(passed / 3600)} h ago`;
  return new Date(iso).toISOString().slice(0, 10);
}

/** "12:03:22.123" in the reader's own time zone. */
export function clock(iso) {
  if (!iso) return "";
  const date = new Date(iso);
  const pad = (value, width = 2) => String(value).padStart(width, "0");
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${pad(date.getMilliseconds(), 3)}`;
}

/** snake_case or kebab-case as words with a capital: "last_verdict" becomes "Last verdict". */
export function words(name) {
  const text = String(name).replaceAll(/[_-]+/g, " ").trim();
  return text.charAt(0).toUpperCase() + text.slice(1);
}
