/** Every timed call as a dot: one row for eager, one for torch.compile where measured, one for the candidate. */

import { durationUs } from "../format.js";
import { cssVariable, el, table } from "../shared/dom.js";

const ROW_HEIGHT = 34;
const LOG_ABOVE = 6; // spread of all times beyond which the axis turns logarithmic

/** Build the plot for `result` (an Evaluation); it draws once its node is in the page. Null without samples. */
export function samplesPlot(result) {
  const rows = rowsOf(result);
  if (rows.length === 0) return null;
  const host = el("div", { class: "samples-canvas", "aria-hidden": "true" });
  const root = el(
    "div",
    { class: "samples" },
    host,
    el("details", { class: "canvas-table" }, el("summary", {}, "Samples as a table"), figuresTable(rows)),
  );
  const observer = new ResizeObserver(() => {
    if (!host.isConnected) return observer.disconnect();
    if (host.clientWidth > 0) redraw(host, rows);
  });
  observer.observe(host);
  return root;
}

function rowsOf(result) {
  return [
    ["Eager", result.baseline, "slower"],
    ["torch.compile", result.compiled_baseline, "correct"],
    ["Candidate", result.candidate, "faster"],
  ]
    .filter(([, timing]) => timing?.samples_us?.length)
    .map(([label, timing, tone]) => ({ label, timing, tone }));
}

function figuresTable(rows) {
  const num = (value) => ({ value, class: "num" });
  return table(
    "Timed calls",
    ["What", num("Median"), num("p10"), num("p90"), num("Calls")],
    rows.map(({ label, timing }) => [
      label,
      num(durationUs(timing.median_us)),
      num(durationUs(timing.p10_us)),
      num(durationUs(timing.p90_us)),
      num(timing.samples_us.length),
    ]),
  );
}

function redraw(host, rows) {
  const width = host.clientWidth;
  if (host.plot) {
    host.plot.setSize({ width, height: heightOf(rows) });
    return;
  }
  host.plot = new window.uPlot(options(rows, width), dataOf(rows), host);
}

function heightOf(rows) {
  return rows.length * ROW_HEIGHT + 36;
}

/** All samples sorted by time; each row is a series that is null where a sample belongs to another row. */
function dataOf(rows) {
  const all = rows.flatMap(({ timing }, row) => timing.samples_us.map((time, call) => ({ time, row, call })));
  all.sort((a, b) => a.time - b.time);
  const series = rows.map((_, row) => all.map((sample) => (sample.row === row ? level(row, rows) + jitter(sample.call) : null)));
  return [all.map((sample) => sample.time), ...series];
}

function level(row, rows) {
  return rows.length - 1 - row;
}

/** Spreads dots of one row without randomness, so that a redraw looks the same. */
function jitter(call) {
  return (((call * 0.618034) % 1) - 0.5) * 0.5;
}

function options(rows, width) {
  const muted = cssVariable("--htam-muted", "#5c646f");
  const line = cssVariable("--htam-line-soft", "#eceef1");
  const times = rows.flatMap(({ timing }) => timing.samples_us);
  const low = Math.min(...times);
  const high = Math.max(...times);
  const logarithmic = low > 0 && high / low > LOG_ABOVE;
  const axis = { stroke: muted, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px sans-serif" };
  return {
    width,
    height: heightOf(rows),
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, distr: logarithmic ? 3 : 1, range: () => (logarithmic ? [low * 0.9, high * 1.1] : [Math.max(0, low - (high - low) * 0.05 - low * 0.02), high + (high - low) * 0.05 + high * 0.02]) },
      y: { range: () => [-0.6, rows.length - 0.4] },
    },
    axes: [
      { ...axis, size: 26, space: 70, ...(logarithmic ? { splits: () => roundTimes(low * 0.9, high * 1.1), filter: (plot, splits) => splits } : {}), values: (plot, ticks) => ticks.map((tick) => (tick === null ? "" : durationUs(tick))) },
      { ...axis, size: 86, grid: { show: false }, splits: () => rows.map((_, row) => level(row, rows)).reverse(), values: (plot, splits) => splits.map((at) => rows[rows.length - 1 - at]?.label ?? "") },
    ],
    series: [{}, ...rows.map(({ label, tone }) => dots(label, cssVariable(`--v-${tone}`, "#888")))],
    hooks: { draw: [(plot) => drawMedians(plot, rows)] },
  };
}

/** 1, 2 and 5 times powers of ten between two times: ticks of a logarithmic axis. */
function roundTimes(low, high) {
  const ticks = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
    for (const step of [1, 2, 5]) if (step * power >= low && step * power <= high) ticks.push(step * power);
  }
  return ticks;
}

function dots(label, colour) {
  return {
    label,
    stroke: "transparent",
    paths: () => null,
    points: { show: true, size: 5, width: 0, fill: `color-mix(in srgb, ${colour} 55%, transparent)`, stroke: "transparent" },
  };
}

function drawMedians(plot, rows) {
  const { ctx } = plot;
  ctx.save();
  ctx.lineWidth = 2 * devicePixelRatio;
  rows.forEach(({ timing, tone }, row) => {
    const x = plot.valToPos(timing.median_us, "x", true);
    ctx.strokeStyle = cssVariable(`--v-${tone}`, "#888");
    ctx.beginPath();
    ctx.moveTo(x, plot.valToPos(level(row, rows) + 0.38, "y", true));
    ctx.lineTo(x, plot.valToPos(level(row, rows) - 0.38, "y", true));
    ctx.stroke();
  });
  ctx.restore();
}
