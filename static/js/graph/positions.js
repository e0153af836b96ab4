/**
 * Where directions stand. Positions are computed once from the keys (or read from the bank) and never again, so that
 * numbers can change under a reader without anything moving.
 */

export const START = "START";
const ROW_GAP = 76; // between rows of strategies
const LABEL_WIDTH = 120;
const SHAPE = { width: 720, height: 560 };

/** Map of key -> {x, y}: stored positions where a node has them, an ellipse in order of keys for the others. */
export function positionsOf(nodes) {
  const ordered = [...nodes].sort((a, b) => (a.key < b.key ? -1 : 1));
  const ring = onEllipse(ordered.length);
  const places = new Map([[START, { x: 0, y: 0 }]]);
  for (const [position, node] of ordered.entries()) {
    places.set(node.key, hasPlace(node) ? { x: node.x, y: node.y } : ring[position]);
  }
  if (ordered.length && ordered.every(hasPlace)) places.set(START, startBeside(ordered));
  return places;
}

/** The same picture stretched into a box of `width` x `height` pixels around its own centre, `margin` kept free. */
export function fittedPositions(places, { width, height, marginX = 56, marginY = 34 }) {
  const points = [...places.values()];
  const box = {
    left: Math.min(...points.map((p) => p.x)),
    right: Math.max(...points.map((p) => p.x)),
    top: Math.min(...points.map((p) => p.y)),
    bottom: Math.max(...points.map((p) => p.y)),
  };
  const scale = (value, low, high, size, margin) =>
    high > low ? margin + ((value - low) / (high - low)) * Math.max(1, size - 2 * margin) : size / 2;
  return new Map(
    [...places].map(([key, p]) => [
      key,
      { x: scale(p.x, box.left, box.right, width, marginX), y: scale(p.y, box.top, box.bottom, height, marginY) },
    ]),
  );
}

/**
 * Where the strategies of the direction at `centre` stand: in rows behind it, seen from START, within the slice of
 * the circle that each of `slices` directions has to itself, so that unfolding all of them overlaps nothing.
 */
export function fan(centre, count, slices) {
  const slice = (2 * Math.PI) / Math.max(4, slices);
  const outward = Math.atan2(centre.y, centre.x || 0.001);
  const places = [];
  for (let radius = Math.hypot(centre.x, centre.y) + ROW_GAP; places.length < count; radius += ROW_GAP) {
    const fits = Math.max(1, Math.floor((slice * radius) / LABEL_WIDTH));
    const inRow = Math.min(fits, count - places.length);
    for (let position = 0; position < inRow; position += 1) {
      const angle = outward + (position - (inRow - 1) / 2) * (slice / fits);
      places.push({ x: Math.cos(angle) * radius, y: Math.sin(angle) * radius });
    }
  }
  return places;
}

function onEllipse(count) {
  const grow = Math.max(1, count / 12);
  return Array.from({ length: count }, (_, position) => {
    const angle = -Math.PI / 2 + (position / count) * 2 * Math.PI;
    return {
      x: Math.round((Math.cos(angle) * SHAPE.width * grow) / 2),
      y: Math.round((Math.sin(angle) * SHAPE.height * grow) / 2),
    };
  });
}

function startBeside(nodes) {
  const left = Math.min(...nodes.map((node) => node.x));
  const middle = (Math.min(...nodes.map((n) => n.y)) + Math.max(...nodes.map((n) => n.y))) / 2;
  const taken = nodes.some((node) => Math.hypot(node.x, node.y) < 60);
  return taken ? { x: left - 160, y: middle } : { x: 0, y: 0 };
}

function hasPlace(node) {
  return Number.isFinite(node.x) && Number.isFinite(node.y);
}
