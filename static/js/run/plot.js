/** Best so far against steps or minutes, every attempt a point; a click selects its step. Failures sit on the floor. */

import { outcomeBadge, ratio } from "../format.js";
import { cssVariable, el, fill, notice, onThemeChange, perFrame, table } from "../shared/dom.js";
import { ratioWithInterval } from "../shared/figures.js";

const HEIGHT = 210;
const AXES = { steps: "Step", minutes: "Minutes since the start" };

export class BestPlot {
  constructor(root, store) {
    this.store = store;
    this.axis = "steps";
    this.controls = el("div", { class: "btn-group", role: "group", "aria-label": "Horizontal axis" });
    this.canvas = el("div", { class: "plot-canvas", "aria-hidden": "true" });
    this.tableHost = el("div", { class: "canvas-table-body" });
    fill(
      root,
      el("div", { class: "pane-toolbar" }, el("h2", { class: "pane-title" }, "Best so far"), this.controls),
      this.canvas,
      el("details", { class: "canvas-table" }, el("summary", {}, "Plot as a table"), this.tableHost),
    );
    const draw = perFrame(() => this.draw());
    store.on(["steps", "selection", "run"], draw);
    onThemeChange(() => this.rebuild());
    new ResizeObserver(() => this.plot?.setSize({ width: this.canvas.clientWidth, height: HEIGHT })).observe(this.canvas);
    this.drawControls();
    this.draw();
  }

  drawControls() {
    fill(
      this.controls,
      ...Object.keys(AXES).map((axis) =>
        el(
          "button",
          {
            type: "button",
            class: `btn btn-sm${axis === this.axis ? " active" : ""}`,
            "aria-pressed": String(axis === this.axis),
            onclick: () => {
              this.axis = axis;
              this.drawControls();
              this.rebuild();
            },
          },
          axis === "steps" ? "Steps" : "Minutes",
        ),
      ),
    );
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    this.draw();
  }

  draw() {
    const done = this.store.ordered.filter((step) => step.stage === "done");
    this.drawTable(done);
    if (done.length === 0) {
      this.plot?.destroy();
      this.plot = null;
      fill(this.canvas, notice("The first point appears when a step ends.", { symbol: "chart-line" }));
      return;
    }
    this.points = pointsOf(done, this.axis, this.store.run.started_at);
    const data = seriesOf(this.points);
    if (this.plot) this.plot.setData(data);
    else {
      fill(this.canvas);
      this.plot = new window.uPlot(this.options(), data, this.canvas);
    }
  }

  options() {
    const muted = cssVariable("--htam-muted", "#5c646f");
    const line = cssVariable("--htam-line-soft", "#eceef1");
    const good = cssVariable("--v-faster", "#136b36");
    const axis = { stroke: muted, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, font: "11px sans-serif", labelFont: "11px sans-serif" };
    return {
      width: this.canvas.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { setScale: false } },
      scales: {
        x: { time: false, range: (plot, low, high) => this.horizontalRange(high) },
        y: { range: () => this.verticalRange() },
      },
      axes: [
        { ...axis, label: AXES[this.axis], labelSize: 18, size: 30, ...(this.axis === "steps" ? { incrs: [1, 2, 5, 10, 20] } : {}) },
        { ...axis, size: 52, values: (plot, ticks) => ticks.map((tick) => `${Number(tick.toFixed(2))}x`) },
      ],
      series: [
        {},
        { label: "Best so far", stroke: good, width: 2, paths: window.uPlot.paths.stepped({ align: 1 }), points: { show: false } },
        { label: "low", stroke: "transparent", paths: window.uPlot.paths.stepped({ align: 1 }), points: { show: false } },
        { label: "high", stroke: "transparent", paths: window.uPlot.paths.stepped({ align: 1 }), points: { show: false } },
      ],
      bands: [{ series: [3, 2], fill: `color-mix(in srgb, ${good} 14%, transparent)` }],
      hooks: { draw: [(plot) => this.drawMarks(plot)], ready: [(plot) => this.listen(plot)] },
    };
  }

  horizontalRange(high) {
    if (this.axis === "steps") return [0, Math.max(this.store.run.steps_total, high ?? 1) + 0.5];
    return [0, Math.max(0.1, (high ?? 0) * 1.05)];
  }

  /** From just below the slowest step (or 1x) to just above the fastest; failures have the floor to themselves. */
  verticalRange() {
    const believed = this.points.filter((point) => point.index && !point.quarantined);
    const values = [...this.points.map((point) => point.best.high), ...believed.flatMap((point) => [point.speedup, point.low, point.high])];
    const known = values.filter((value) => value !== null && value !== undefined);
    const low = Math.min(1, ...known);
    const high = Math.max(1.1, ...known);
    return [Math.max(0, low - (high - low) * 0.14), high + (high - low) * 0.08];
  }

  /** The line at 1x, one mark per step in its verdict's colour, the selected one ringed. */
  drawMarks(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    const one = plot.valToPos(1, "y", true);
    ctx.strokeStyle = cssVariable("--htam-muted", "#888");
    ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, one);
    ctx.lineTo(bbox.left + bbox.width, one);
    ctx.stroke();
    ctx.setLineDash([]);
    for (const point of this.points) if (point.index) this.drawMark(plot, point);
    ctx.restore();
  }

  drawMark(plot, point) {
    const { ctx, bbox } = plot;
    const unit = devicePixelRatio;
    const x = plot.valToPos(point.x, "x", true);
    const failed = point.speedup === null;
    const y = failed ? bbox.top + bbox.height - 7 * unit : Math.max(bbox.top + 7 * unit, plot.valToPos(point.speedup, "y", true));
    const colour = cssVariable(`--v-${point.tone}`, "#888");
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.lineWidth = 2 * unit;
    ctx.beginPath();
    if (failed) cross(ctx, x, y, 4 * unit);
    else {
      if (point.low !== null && point.high !== null && !point.quarantined) whisker(ctx, x, plot.valToPos(point.low, "y", true), plot.valToPos(point.high, "y", true));
      ctx.beginPath();
      ctx.arc(x, y, 4 * unit, 0, 2 * Math.PI);
      ctx.fill();
    }
    if (point.index === this.store.current?.index) {
      ctx.beginPath();
      ctx.strokeStyle = cssVariable("--htam-accent", "#1557b0");
      ctx.arc(x, y, 8 * unit, 0, 2 * Math.PI);
      ctx.stroke();
    }
  }

  listen(plot) {
    const nearest = (event) => {
      const x = event.offsetX;
      const found = this.points
        .filter((point) => point.index)
        .map((point) => ({ point, gap: Math.abs(plot.valToPos(point.x, "x") - x) }))
        .sort((a, b) => a.gap - b.gap)[0];
      return found && found.gap < 24 ? found.point : null;
    };
    plot.over.addEventListener("click", (event) => {
      const point = nearest(event);
      if (point) this.store.select(point.index);
    });
    plot.over.addEventListener("mousemove", (event) => {
      const point = nearest(event);
      plot.over.style.cursor = point ? "pointer" : "default";
      plot.over.title = point ? `Step ${point.index}: ${point.label}` : "";
    });
  }

  drawTable(done) {
    const best = runningBest(done);
    const rows = done.map((step, position) => [
      { value: step.index, class: "num" },
      step.direction?.title ?? "",
      step.outcome ? outcomeBadge(step.outcome) : "",
      { value: ratioWithInterval(step.speedup, step.speedup_low, step.speedup_high), class: "num" },
      { value: ratio(best[position]), class: "num" },
    ]);
    fill(this.tableHost, table("Speed-up of each step and best so far", [{ value: "Step", class: "num" }, "Direction", "Verdict", { value: "Speed-up", class: "num" }, { value: "Best so far", class: "num" }], rows));
  }
}

/** One point per finished step plus the start at 1x, in order of time. */
function pointsOf(done, axis, startedAt) {
  const start = Date.parse(startedAt ?? done[0].started_at);
  const best = { speedup: 1, low: 1, high: 1 };
  const points = [{ x: 0, best: { ...best } }];
  for (const step of done) {
    if (counts(step) && step.speedup > best.speedup) {
      Object.assign(best, { speedup: step.speedup, low: step.speedup_low ?? step.speedup, high: step.speedup_high ?? step.speedup });
    }
    points.push({
      x: axis === "steps" ? step.index : Math.max(0, (Date.parse(step.finished_at) - start) / 60000),
      index: step.index,
      speedup: step.speedup ?? null,
      low: step.speedup_low ?? null,
      high: step.speedup_high ?? null,
      quarantined: step.outcome === "quarantined",
      tone: step.outcome_class || "slower",
      label: [step.outcome_label, step.speedup ? ratioWithInterval(step.speedup, step.speedup_low, step.speedup_high) : ""].filter(Boolean).join(", "),
      best: { ...best },
    });
  }
  return points;
}

function seriesOf(points) {
  return [
    points.map((point) => point.x),
    points.map((point) => point.best.speedup),
    points.map((point) => point.best.low),
    points.map((point) => point.best.high),
  ];
}

/** A quarantined step carries a time but never becomes the best. */
function counts(step) {
  return step.speedup !== null && step.speedup !== undefined && step.improved !== false && step.outcome === "faster";
}

function runningBest(done) {
  let best = 1;
  return done.map((step) => (best = counts(step) ? Math.max(best, step.speedup) : best));
}

function cross(ctx, x, y, reach) {
  ctx.moveTo(x - reach, y - reach);
  ctx.lineTo(x + reach, y + reach);
  ctx.moveTo(x - reach, y + reach);
  ctx.lineTo(x + reach, y - reach);
  ctx.stroke();
}

function whisker(ctx, x, low, high) {
  ctx.moveTo(x, low);
  ctx.lineTo(x, high);
  ctx.stroke();
}
