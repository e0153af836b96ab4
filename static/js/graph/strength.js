/** Which transitions are drawn: the strongest share of them. Strong is much travelled, then far from no effect. */

/** The keys of the strongest `share` (0 to 1) of `edges`, a Map of rows by key. */
export function strongest(edges, share) {
  const strength = ([, edge]) => [edge.tries ?? edge.n ?? 0, Math.abs(edge.utility)];
  const sorted = [...edges].sort((a, b) => {
    const [triesA, effectA] = strength(a);
    const [triesB, effectB] = strength(b);
    return triesB - triesA || effectB - effectA;
  });
  return new Set(sorted.slice(0, Math.ceil(share * sorted.length)).map(([key]) => key));
}
