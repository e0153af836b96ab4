/** A bank's graph as the server sends it, turned into elements for Cytoscape, and kept current by changes. */

import { START } from "./positions.js";
import { edgeOpacity, edgeWidth, nodeSize, utilityColour } from "./style.js";

export class GraphModel {
  /** `data`: the answer of /api/banks/{id}/graph/ - directions, strategies and edges with posterior utilities. */
  constructor(data) {
    this.directions = new Map(data.directions.map((node) => [node.key, node]));
    this.strategies = new Map((data.strategies ?? []).map((node) => [node.id, node]));
    this.edges = new Map(data.edges.map((edge) => [edgeId(edge), edge]));
  }

  strategiesOf(key) {
    const direction = this.directions.get(key);
    return [...this.strategies.values()].filter((strategy) => strategy.direction === direction?.id || strategy.direction === key);
  }

  edgesOf(key) {
    return [...this.edges.values()].filter((edge) => edge.source === key || edge.target === key);
  }

  directionById(id) {
    return [...this.directions.values()].find((node) => node.id === id);
  }

  edgeByRow(id) {
    return [...this.edges.values()].find((edge) => edge.id === id);
  }
}

/** "fusion>data-reuse"; edges without a source start at START. */
export function edgeId(edge) {
  return `${edge.source ?? START}>${edge.target}`;
}

export function directionData(node, sizes) {
  return {
    id: node.key,
    label: node.title,
    kind: "direction",
    row: node.id,
    size: nodeSize(node.tries, sizes),
    colour: utilityColour(node.utility),
    utility: node.utility,
    n: node.n,
  };
}

export function strategyData(node) {
  return {
    id: `strategy-${node.id}`,
    label: node.title,
    kind: "strategy",
    row: node.id,
    size: 8 + nodeSize(node.tries) / 4,
    colour: utilityColour(node.utility),
    utility: node.utility,
    n: node.n,
  };
}

export function edgeData(edge) {
  return {
    id: edgeId(edge),
    source: edge.source ?? START,
    target: edge.target,
    kind: "edge",
    row: edge.id,
    width: edgeWidth(edge.tries ?? edge.n),
    opacity: edgeOpacity(edge.utility, edge.tries ?? edge.n),
    colour: utilityColour(edge.utility),
    utility: edge.utility,
    n: edge.n,
  };
}
