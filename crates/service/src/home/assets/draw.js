// Paths on a canvas, at the resolution of the screen.

import { colour, metres } from "./page.js";
import { projection } from "./path.js";

/** From below to above: the widest first, so that each level shows on both sides of the next. */
export const LEVELS = [
  { name: "full", width: 8, dash: [] },
  { name: "high", width: 5, dash: [] },
  { name: "medium", width: 2.6, dash: [] },
  { name: "low", width: 1.4, dash: [7, 4] },
];

/** Fits the canvas to its element and clears it; nothing when it is not laid out. */
function prepared(canvas) {
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (width === 0 || height === 0) return undefined;
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.lineJoin = "round";
  context.lineCap = "round";
  return { context, width, height };
}

/** Adds lines to the context's path, leaving out what is beyond the canvas. */
function trace({ context, width, height }, view, lines) {
  const margin = 40;
  const side = (x, y) => (x < -margin ? 1 : x > width + margin ? 2 : 0) | (y < -margin ? 4 : y > height + margin ? 8 : 0);
  context.beginPath();
  for (const line of lines) {
    let before;
    let drawn = false;
    for (const point of line) {
      const now = { x: view.x(point), y: view.y(point) };
      now.side = side(now.x, now.y);
      if (before && (before.side & now.side) === 0) {
        if (!drawn) context.moveTo(before.x, before.y);
        context.lineTo(now.x, now.y);
        drawn = true;
      } else {
        drawn = false;
      }
      before = now;
    }
  }
}

/** Draws these levels within a rectangle of degrees; gives the projection. */
export function draw(canvas, box, levels, { padding, scale = 1, dots = false, mark }) {
  const sheet = prepared(canvas);
  if (!sheet) return undefined;
  const view = projection(box, sheet.width, sheet.height, padding);
  const { context } = sheet;
  for (const { style, lines } of levels) {
    const stroke = colour(`--level-${style.name}`);
    trace(sheet, view, lines);
    context.strokeStyle = stroke;
    context.lineWidth = style.width * scale;
    context.setLineDash(style.dash.map((length) => length * scale));
    context.stroke();
    context.setLineDash([]);
    if (dots) knots(sheet, view, lines, stroke, style.width * scale * 0.5 + 1.6);
  }
  if (mark) ring(context, view.x(mark), view.y(mark));
  if (view.trueToScale && levels.length > 0) bar(sheet, view.metresPerPixel);
  return view;
}

/** The points that a level has kept. */
function knots({ context, width, height }, view, lines, stroke, radius) {
  context.fillStyle = stroke;
  context.beginPath();
  for (const line of lines) {
    for (const point of line) {
      const [x, y] = [view.x(point), view.y(point)];
      if (x < -9 || y < -9 || x > width + 9 || y > height + 9) continue;
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
    }
  }
  context.fill();
}

function ring(context, x, y) {
  for (const [stroke, width] of [[colour("--card"), 5], [colour("--ink"), 2]]) {
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.beginPath();
    context.arc(x, y, 9, 0, 2 * Math.PI);
    context.stroke();
  }
}

/** A bar of a round length: 1, 2 or 5 times a power of ten, at most a third of the width. */
function bar({ context, width, height }, metresPerPixel) {
  const most = (width / 3) * metresPerPixel;
  const power = 10 ** Math.floor(Math.log10(most));
  const length = [5, 2, 1].map((n) => n * power).find((n) => n <= most) ?? power;
  const pixels = length / metresPerPixel;
  const [x, y] = [14, height - 14];
  context.strokeStyle = colour("--quiet");
  context.fillStyle = colour("--quiet");
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x, y - 5);
  context.lineTo(x, y);
  context.lineTo(x + pixels, y);
  context.lineTo(x + pixels, y - 5);
  context.stroke();
  context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  context.fillText(length < 1 ? `${length * 100} cm` : metres(length), x + 6, y - 5);
}
