// Geometry of paths: no DOM here. Positions are degrees; longitudes are unwrapped, so that a path over the
// antimeridian goes on beyond 180° instead of jumping across the map.

/** Metres of a degree of latitude on the mean sphere (6,371.0088 km). */
export const METRES_PER_DEGREE = (6_371_008.8 * Math.PI) / 180;

const radians = (degrees) => (degrees * Math.PI) / 180;

/** `segments` of `[lat, lon, …]` as lines of `{x: longitude, y: latitude}`, unwrapped. */
export function unwrap(segments) {
  let before;
  return segments.map((segment) =>
    segment.map(([lat, lon]) => {
      if (before !== undefined) lon += 360 * Math.round((before - lon) / 360);
      before = lon;
      return { x: lon, y: lat };
    }),
  );
}

/** The smallest rectangle around lines. */
export function bounds(lines) {
  const box = { west: Infinity, east: -Infinity, south: Infinity, north: -Infinity };
  for (const line of lines) {
    for (const { x, y } of line) {
      box.west = Math.min(box.west, x);
      box.east = Math.max(box.east, x);
      box.south = Math.min(box.south, y);
      box.north = Math.max(box.north, y);
    }
  }
  return box;
}

/**
 * An equirectangular projection with the same scale in both directions at the middle latitude: true to
 * scale for a path of tens of kilometres, a plain map of the world for one around it.
 */
export function projection(box, width, height, padding) {
  const middle = { x: (box.west + box.east) / 2, y: (box.south + box.north) / 2 };
  const narrow = Math.max(Math.cos(radians(middle.y)), 0.01);
  const wide = Math.max((box.east - box.west) * narrow, 1e-9);
  const high = Math.max(box.north - box.south, 1e-9);
  const scale = Math.min((width - 2 * padding) / wide, (height - 2 * padding) / high);
  return {
    x: ({ x }) => width / 2 + (x - middle.x) * narrow * scale,
    y: ({ y }) => height / 2 - (y - middle.y) * scale,
    metresPerPixel: METRES_PER_DEGREE / scale,
    /** Whether one scale bar holds for all of it. */
    trueToScale: box.north - box.south < 12 && box.east - box.west < 40,
  };
}

/** A rectangle around a position that shows so many metres to each side of it. */
export function around(centre, metres) {
  const high = metres / METRES_PER_DEGREE;
  const wide = high / Math.max(Math.cos(radians(centre.y)), 0.01);
  return { west: centre.x - wide, east: centre.x + wide, south: centre.y - high, north: centre.y + high };
}

/** Distance in metres of `p` from the straight line between `a` and `b`, all three close together. */
function distance(p, a, b) {
  const narrow = Math.cos(radians(p.y));
  const ax = (a.x - p.x) * narrow;
  const ay = a.y - p.y;
  const dx = (b.x - a.x) * narrow;
  const dy = b.y - a.y;
  const square = dx * dx + dy * dy;
  const along = square > 0 ? Math.min(1, Math.max(0, -(ax * dx + ay * dy) / square)) : 0;
  return Math.hypot(ax + along * dx, ay + along * dy) * METRES_PER_DEGREE;
}

/** No flat distance is meant for legs longer than this (in degrees): they are arcs of great circles. */
const FLAT_DEGREES = 0.5;

/**
 * Where a simplified path leaves the full one furthest behind: simplifying keeps some of the points, in
 * order, so both are walked together. Nothing when it left no point out, or only on legs too long to be flat.
 */
export function widestGap(full, simple) {
  let widest;
  full.forEach((line, at) => {
    const kept = simple[at] ?? [];
    let leg = 0;
    for (const point of line) {
      const a = kept[leg];
      const b = kept[leg + 1];
      if (!a || !b) break;
      if (point.x === b.x && point.y === b.y) {
        leg += 1;
      } else if (point.x === a.x && point.y === a.y) {
        // The start of the leg, kept as well.
      } else if (Math.abs(b.x - a.x) + Math.abs(b.y - a.y) < FLAT_DEGREES) {
        const metres = distance(point, a, b);
        if (!widest || metres > widest.metres) widest = { metres, point };
      }
    }
  });
  return widest;
}

/** Every point with its share of the way, 0 to 1; gaps between lines do not count. */
export function measured(lines) {
  const points = [];
  let so_far = 0;
  for (const line of lines) {
    line.forEach((point, at) => {
      const before = line[at - 1];
      if (before) {
        const narrow = Math.cos(radians(point.y));
        so_far += Math.hypot((point.x - before.x) * narrow, point.y - before.y);
      }
      points.push({ point, share: so_far });
    });
  }
  if (so_far > 0) for (const entry of points) entry.share /= so_far;
  return points;
}

/** The position at a share of the way, between the points around it. */
export function positionAt(way, share) {
  let low = 0;
  let high = way.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (way[middle].share < share) low = middle + 1;
    else high = middle;
  }
  const after = way[low];
  const before = way[Math.max(low - 1, 0)];
  const span = after.share - before.share;
  const part = span > 0 ? (share - before.share) / span : 1;
  const between = (a, b) => a + (b - a) * part;
  return { x: between(before.point.x, after.point.x), y: between(before.point.y, after.point.y) };
}

/** The share of the way of the point nearest to a place on the canvas. */
export function nearestShare(way, view, x, y) {
  let best = { square: Infinity, share: 0 };
  for (const { point, share } of way) {
    const square = (view.x(point) - x) ** 2 + (view.y(point) - y) ** 2;
    if (square < best.square) best = { square, share };
  }
  return best.share;
}
