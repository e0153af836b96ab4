/** The run's memory graph: where it has been (numbered), where it is (lit), and what it taught, updated in place. */

import { el, fill, icon, notice, onThemeChange, perFrame, table } from "../shared/dom.js";
import { evidenceCount, signed } from "../shared/figures.js";
import { get } from "../shared/rest.js";
import { GraphModel, directionData, edgeData, edgeId } from "../graph/model.js";
import { START, fittedPositions, positionsOf } from "../graph/positions.js";
import { styleSheet } from "../graph/style.js";

const SIZES = { small: 11, large: 26 };

export class RunGraph {
  constructor(root, store, urls) {
    this.store = store;
    this.urls = urls;
    this.canvas = el("div", { class: "graph-canvas", "aria-hidden": "true" });
    this.tableHost = el("div", { class: "canvas-table-body" });
    fill(
      root,
      this.canvas,
      el("details", { class: "canvas-table" }, el("summary", {}, "Graph as a table"), this.tableHost),
    );
  }

  async mount() {
    fill(this.canvas, notice("Loading the memory graph", { symbol: "loader" }));
    try {
      this.model = new GraphModel(await get(this.urls.graph));
    } catch (error) {
      fill(this.canvas, notice(`The memory graph did not load. ${error.message}`, { tone: "error", symbol: "alert-triangle" }));
      return;
    }
    fill(this.canvas);
    if (this.model.directions.size === 0) {
      fill(this.canvas, notice("This memory bank holds no direction.", { symbol: "affiliate" }));
      return;
    }
    this.draw();
    this.listen();
  }

  draw() {
    const places = positionsOf([...this.model.directions.values()]);
    const { width, height } = this.canvas.getBoundingClientRect();
    this.places = fittedPositions(places, { width, height });
    this.cy = window.cytoscape({
      container: this.canvas,
      elements: this.elements(),
      layout: { name: "preset", fit: false },
      zoom: 1,
      pan: { x: 0, y: 0 },
      style: styleSheet({ compact: true }),
      minZoom: 0.4,
      maxZoom: 4,
      autoungrabify: true,
      boxSelectionEnabled: false,
    });
    window.htamGraph = this.cy;
    this.mark();
    this.drawTable();
  }

  elements() {
    const node = (data, classes = "") => ({ group: "nodes", data, position: this.places.get(data.id), classes });
    const directions = [...this.model.directions.values()].map((row) =>
      node(directionData(row, SIZES), row.retired ? "retired" : ""),
    );
    const edges = [...this.model.edges.values()]
      .filter((edge) => this.places.has(edge.source ?? START) && this.places.has(edge.target))
      .map((edge) => ({ group: "edges", data: edgeData(edge), classes: edge.retired ? "retired" : "" }));
    return [node({ id: START, label: "START", kind: "start", size: 16, colour: "#888" }, "start"), ...directions, ...edges];
  }

  listen() {
    const mark = perFrame(() => this.mark());
    this.store.on(["steps", "selection", "run"], mark);
    this.store.on(["memory"], (change) => this.learn(change));
    this.cy.on("tap", "node[kind = 'direction']", (event) => this.selectNode(event.target.id()));
    this.cy.on("tap", "edge", (event) => this.selectEdge(event.target));
    onThemeChange(() => {
      this.cy.style(styleSheet({ compact: true }));
      this.recolour();
    });
    let waiting = null;
    new ResizeObserver(() => {
      clearTimeout(waiting);
      waiting = setTimeout(() => this.resized(), 120);
    }).observe(this.canvas);
  }

  /** Stretch the picture to the new box; zoom and pan that a person set stay. */
  resized() {
    const { width, height } = this.canvas.getBoundingClientRect();
    if (width < 50 || height < 50) return;
    this.cy.resize();
    this.places = fittedPositions(positionsOf([...this.model.directions.values()]), { width, height });
    this.cy.batch(() => this.cy.nodes().forEach((node) => node.position(this.places.get(node.id()))));
  }

  /** Path of the run up to the newest step, the shown step lit. */
  mark() {
    const steps = this.store.ordered.filter((step) => step.direction);
    const current = this.store.current;
    const path = new Map();
    let from = START;
    for (const step of steps) {
      const id = `${from}>${step.direction.key}`;
      path.set(id, [...(path.get(id) ?? []), step.index]);
      from = step.direction.key;
    }
    this.cy.batch(() => {
      this.cy.elements().removeClass("path visited lit");
      for (const [id, indices] of path) this.markEdge(id, indices, current);
      for (const step of steps) this.cy.getElementById(step.direction.key).addClass("visited");
      if (current?.direction) this.cy.getElementById(current.direction.key).addClass("lit");
    });
  }

  markEdge(id, indices, current) {
    const [source, target] = id.split(">");
    if (this.cy.getElementById(source).empty() || this.cy.getElementById(target).empty()) return;
    if (this.cy.getElementById(id).empty()) {
      const edge = { id: null, source: source === START ? null : source, target, utility: 0, n: 0 };
      this.cy.add({ group: "edges", data: edgeData(edge) });
    }
    const drawn = this.cy.getElementById(id);
    drawn.data("steps", indices.join(", "));
    drawn.addClass("path");
    if (current && indices.includes(current.index)) drawn.addClass("lit");
  }

  /** What a step taught: new utilities and counts on one node and one edge. */
  learn(change) {
    if (!change) return;
    this.update(this.model.directions.get(change.direction?.key), change.direction?.after, directionData);
    const edge = change.edge && this.edgeOf(change.edge);
    if (edge) this.update(edge, change.edge.after, edgeData);
    this.drawTable();
  }

  edgeOf(part) {
    const known = this.model.edgeByRow(part.id);
    if (known) return known;
    if (!part.target) return null;
    const edge = { id: part.id, source: part.source === START ? null : part.source, target: part.target, utility: 0, n: 0 };
    this.model.edges.set(edgeId(edge), edge);
    if (this.cy.getElementById(edgeId(edge)).empty()) this.cy.add({ group: "edges", data: edgeData(edge) });
    return edge;
  }

  update(row, after, toData) {
    if (!row || !after) return;
    Object.assign(row, { utility: after.utility, n: after.n, tries: after.tries ?? after.n });
    const { id, source, target, ...data } = toData(row, SIZES);
    this.cy.getElementById(id).data(data);
  }

  recolour() {
    this.cy.batch(() => {
      for (const row of this.model.directions.values()) this.cy.getElementById(row.key).data("colour", directionData(row).colour);
      for (const row of this.model.edges.values()) this.cy.getElementById(edgeId(row)).data("colour", edgeData(row).colour);
    });
  }

  selectNode(key) {
    const last = this.store.ordered.findLast((step) => step.direction?.key === key);
    if (last) this.store.select(last.index);
  }

  selectEdge(edge) {
    const steps = String(edge.data("steps") ?? "").split(", ").filter(Boolean);
    if (edge.hasClass("path") && steps.length) this.store.select(Number(steps.at(-1)));
  }

  drawTable() {
    const directions = [...this.model.directions.values()].map((row) => [row.title, num(signed(row.utility)), num(evidenceCount(row.tries ?? row.n))]);
    const known = [...this.model.edges.values()].filter((edge) => (edge.tries ?? edge.n) > 0);
    const edges = known.map((edge) => [
      `${this.title(edge.source)} to ${this.title(edge.target)}`,
      num(signed(edge.utility)),
      num(evidenceCount(edge.tries ?? edge.n)),
    ]);
    fill(
      this.tableHost,
      table("Directions with posterior utility and evidence", ["Direction", head("Utility"), head("n")], directions),
      edges.length
        ? table("Transitions with evidence", ["Transition", head("Utility"), head("n")], edges)
        : el("p", { class: "muted" }, icon("info-circle"), " No transition has evidence yet."),
    );
  }

  title(key) {
    return key ? (this.model.directions.get(key)?.title ?? key) : START;
  }
}

const num = (value) => ({ value, class: "num" });
const head = (value) => ({ value, class: "num" });
