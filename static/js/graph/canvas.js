/** The big graph of a bank: select, expand strategies, drag (curators), find. Numbers change in place. */

import { onThemeChange } from "../shared/dom.js";
import { directionData, edgeData, edgeId, strategyData } from "./model.js";
import { START, fan, positionsOf } from "./positions.js";
import { styleSheet } from "./style.js";

export class MemoryCanvas {
  /** `handlers`: onSelect({kind, id}) and, for those who may move nodes, onMove(direction row, {x, y}). */
  constructor(root, model, handlers) {
    this.root = root;
    this.model = model;
    this.handlers = handlers;
    this.expanded = new Set();
    this.places = positionsOf([...model.directions.values()]);
    this.cy = window.cytoscape({
      container: root,
      elements: this.elements(),
      layout: { name: "preset", fit: true, padding: 48 },
      style: styleSheet(),
      minZoom: 0.2,
      maxZoom: 3,
      autoungrabify: !handlers.onMove,
      boxSelectionEnabled: false,
      selectionType: "single",
    });
    window.htamGraph = this.cy;
    this.listen();
  }

  elements() {
    const directions = [...this.model.directions.values()].map((row) => this.directionElement(row));
    const edges = [...this.model.edges.values()].map((edge) => this.edgeElement(edge));
    const start = { group: "nodes", data: { id: START, label: "START", kind: "start", size: 16, colour: "#888" }, position: { ...this.places.get(START) }, classes: "start", grabbable: false };
    return [start, ...directions, ...edges];
  }

  directionElement(row) {
    return { group: "nodes", data: directionData(row), position: { ...this.placeOf(row.key) }, classes: row.retired ? "retired" : "" };
  }

  edgeElement(edge) {
    return { group: "edges", data: edgeData(edge), classes: edge.retired ? "retired" : "" };
  }

  placeOf(key) {
    if (!this.places.has(key)) this.places = new Map([...positionsOf([...this.model.directions.values()]), ...this.places]);
    return this.places.get(key);
  }

  listen() {
    this.cy.on("tap", "node[kind = 'direction'], node[kind = 'strategy'], edge[kind = 'edge']", ({ target }) =>
      this.handlers.onSelect({ kind: target.data("kind"), id: target.data("kind") === "direction" ? target.id() : target.data("row") }),
    );
    this.cy.on("tap", ({ target }) => target === this.cy && this.handlers.onSelect(null));
    this.cy.on("dbltap", "node[kind = 'direction']", ({ target }) => this.unfold(target.id()));
    this.cy.on("dragfree", "node[kind = 'direction']", ({ target }) => this.moved(target));
    this.cy.on("mouseover", "node, edge", ({ target }) => this.focusOn(target));
    this.cy.on("mouseout", "node, edge", () => this.cy.elements().removeClass("dimmed"));
    onThemeChange(() => this.restyle());
    new ResizeObserver(() => this.root.clientWidth > 0 && this.cy.resize()).observe(this.root);
  }

  /** Dim what has nothing to do with the node under the pointer. */
  focusOn(target) {
    const near = target.isNode() ? target.closedNeighborhood() : target.union(target.connectedNodes());
    this.cy.batch(() => this.cy.elements().not(near).addClass("dimmed"));
  }

  moved(node) {
    const row = this.model.directions.get(node.id());
    const place = { x: Math.round(node.position("x")), y: Math.round(node.position("y")) };
    this.places.set(row.key, place);
    if (this.expanded.has(row.key)) this.spread(row.key);
    this.handlers.onMove?.(row, place);
  }

  /** Show a direction's strategies and bring them into view, or fold them away. */
  unfold(key) {
    this.toggle(key);
    if (this.expanded.has(key)) this.frame(key);
  }

  toggle(key, open = !this.expanded.has(key)) {
    if (open) this.expanded.add(key);
    else this.expanded.delete(key);
    this.cy.batch(() => {
      this.cy.remove(`node[kind = 'strategy'][parentKey = '${key}']`);
      if (open) this.spread(key);
    });
  }

  /** Bring a direction and its strategies into view. */
  frame(key) {
    const shown = this.cy.nodes(`[parentKey = '${key}']`).union(this.cy.getElementById(key));
    if (shown.length > 1) this.cy.fit(shown, 70);
  }

  toggleAll(open) {
    for (const key of this.model.directions.keys()) this.toggle(key, open);
  }

  /** Put the strategies of `key` around it, adding those that are missing. */
  spread(key) {
    const rows = this.model.strategiesOf(key);
    const places = fan(this.cy.getElementById(key).position(), rows.length, this.model.directions.size);
    rows.forEach((row, position) => {
      const data = { ...strategyData(row), parentKey: key };
      const known = this.cy.getElementById(data.id);
      if (known.nonempty()) {
        known.position(places[position]);
        return;
      }
      this.cy.add({ group: "nodes", data, position: places[position], classes: row.retired ? "strategy retired" : "strategy", grabbable: false });
      this.cy.add({ group: "edges", data: { id: `of-${data.id}`, source: key, target: data.id, kind: "belongs", width: 1, opacity: 0.6, colour: "#888" }, classes: "belongs" });
    });
  }

  /** Draw a row anew after it was saved or made. */
  put(kind, row) {
    const [id, data, element] = {
      direction: () => [row.key, directionData(row), () => this.directionElement(row)],
      edge: () => [edgeId(row), edgeData(row), () => this.edgeElement(row)],
      strategy: () => [`strategy-${row.id}`, strategyData(row), null],
    }[kind]();
    const drawn = this.cy.getElementById(id);
    if (drawn.empty()) {
      if (element) this.cy.add(element());
      else if (this.expanded.has(row.direction)) this.toggle(row.direction, true);
      return;
    }
    const { id: _, source, target, ...rest } = data;
    drawn.data(rest);
    drawn.toggleClass("retired", Boolean(row.retired));
  }

  /** Mark the selected element; pan only when it lies outside the view. */
  show(selection) {
    this.cy.elements().unselect();
    const element = this.elementOf(selection);
    if (!element || element.empty()) return;
    element.select();
    const box = element.renderedBoundingBox();
    const outside = box.x2 < 0 || box.y2 < 0 || box.x1 > this.cy.width() || box.y1 > this.cy.height();
    if (outside) this.cy.center(element);
  }

  elementOf(selection) {
    if (!selection) return null;
    if (selection.kind === "direction") return this.cy.getElementById(selection.id);
    if (selection.kind === "edge") {
      const edge = this.model.edgeByRow(selection.id);
      return edge ? this.cy.getElementById(edgeId(edge)) : null;
    }
    const strategy = this.model.strategies.get(selection.id);
    if (strategy && !this.expanded.has(strategy.direction)) this.toggle(strategy.direction, true);
    return this.cy.getElementById(`strategy-${selection.id}`);
  }

  /** Draw only these transitions (keys as `edgeId` makes them). */
  showEdges(keys) {
    this.cy.batch(() => this.cy.edges("[kind = 'edge']").forEach((edge) => edge.toggleClass("weak", !keys.has(edge.id()))));
  }

  /** Another state of the same bank: parts come, go and change; whatever stays keeps its place. */
  replace(model) {
    const open = [...this.expanded].filter((key) => model.directions.has(key));
    this.model = model;
    this.expanded.clear();
    this.cy.batch(() => {
      this.cy.elements().remove();
      this.cy.add(this.elements());
    });
    for (const key of open) this.toggle(key, true);
  }

  fit() {
    this.cy.fit(undefined, 48);
  }

  restyle() {
    this.cy.style(styleSheet());
    for (const row of this.model.directions.values()) this.put("direction", row);
    for (const row of this.model.edges.values()) this.put("edge", row);
    for (const row of this.model.strategies.values()) if (this.expanded.has(row.direction)) this.put("strategy", row);
  }
}
