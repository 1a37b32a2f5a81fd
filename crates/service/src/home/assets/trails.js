// One trail at a time: its full path and its three levels over it, each with what it cost to send.

import { ask, askJson, byId, bytes, count, element, isAborted, languageOf, metres, onColours, timingOf } from "./page.js";
import { around, bounds, measured, nearestShare, positionAt, unwrap, widestGap } from "./path.js";
import { LEVELS, draw } from "./draw.js";

/** The heaviest trail that is shown unasked: a stranger's first load stays small. */
const UNASKED_POINTS = 2000;
const LARGEST_PAGE = 100;

const trails = [];
let cursor = "";
let chosen;
let loading;
/** What is drawn: by level `{lines, points, …}`, or nothing yet. */
let levels = {};
const shown = { full: true, high: true, medium: true, low: true };
/** The part that is enlarged. */
const close = { way: [], share: 0, metres: 200 };
let overview;

export async function startTrails() {
  legend();
  for (const input of document.querySelectorAll("input[name=trail-order]")) input.addEventListener("change", list);
  byId("trail-more").addEventListener("click", () => more().catch(refused));
  byId("trail-overview").addEventListener("click", look);
  byId("trail-along").addEventListener("input", (event) => moveTo(event.target.value / 1000));
  byId("trail-in").addEventListener("click", () => zoom(0.5));
  byId("trail-out").addEventListener("click", () => zoom(2));
  const watcher = new ResizeObserver(paint);
  watcher.observe(byId("trail-overview"));
  watcher.observe(byId("trail-close"));
  onColours(paint);
  await more().catch(refused);
}

function refused(error) {
  if (isAborted(error)) return;
  byId("trail-about").textContent = error.message;
  if (trails.length === 0) empty(error.message);
}

function empty(text, command) {
  const notice = byId("trails-empty");
  notice.replaceChildren(text);
  if (command) notice.append(" ", element("code", {}, command));
  notice.hidden = false;
  byId("trails-body").hidden = true;
}

async function more() {
  const page = await askJson(`/v1/tracks?sort=length&limit=${LARGEST_PAGE}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
  trails.push(...page.items);
  cursor = page.nextCursor ?? "";
  byId("trail-more").hidden = !cursor;
  if (trails.length === 0) return empty("No trails here yet:", "madang import tracks FILE");
  if (!chosen) {
    const light = trails.filter((t) => t.pointsTotal <= UNASKED_POINTS);
    const most = (list) => list.reduce((a, b) => (b.pointsTotal > a.pointsTotal ? b : a));
    choose(light.length > 0 ? most(light) : trails.at(-1));
  }
  list();
}

/** The trails in the order that is asked for. */
function list() {
  const byName = document.querySelector("input[name=trail-order]:checked").value === "name";
  const { compare } = new Intl.Collator(["en", "ko"], { numeric: true });
  const order = byName ? trails.toSorted((a, b) => compare(a.name, b.name)) : trails;
  const rows = order.map((trail) => {
    const input = element("input", { type: "radio", name: "trail", value: trail.id });
    input.checked = trail === chosen;
    input.addEventListener("change", () => choose(trail));
    const about = `${metres(trail.lengthMetres)} · ${count(trail.pointsTotal)} points`;
    const name = element("span", { class: "name", lang: languageOf(trail.name) }, trail.name || "(no name)");
    return element("label", {}, input, element("span", { class: "row" }, name, element("span", { class: "small" }, about)));
  });
  byId("trail-list").replaceChildren(...rows);
  intoView(byId("trail-list"), byId("trail-list").querySelector(":checked")?.closest("label"));
}

/** Scrolls the list, and only the list, until the row is seen. */
function intoView(list, row) {
  if (!row) return;
  const below = row.offsetTop + row.offsetHeight - list.clientHeight;
  list.scrollTop = Math.min(Math.max(list.scrollTop, below), row.offsetTop);
}

async function choose(trail) {
  chosen = trail;
  loading?.abort();
  const mine = new AbortController();
  loading = mine;
  levels = {};
  close.way = [];
  controls(false);
  const name = byId("trail-name");
  name.textContent = trail.name || "(no name)";
  name.lang = languageOf(trail.name) ?? "en";
  byId("trail-about").textContent = `${metres(trail.lengthMetres)} · loading…`;
  byId("trail-gap").textContent = "\u00a0";
  figures();
  paint();
  try {
    // The small ones first: something is seen at once.
    for (const { name } of LEVELS.toReversed()) {
      levels[name] = await fetchLevel(trail.id, name, mine.signal);
      figures();
      paint();
    }
  } catch (error) {
    return refused(error);
  }
  describe(trail);
}

/** All levels are here: where do they differ most? */
function describe(trail) {
  const { full, low } = levels;
  const parts = full.lines.length;
  const lines = parts > 1 ? `in ${parts} parts · ` : "";
  byId("trail-about").textContent = `${metres(trail.lengthMetres)} · ${lines}${count(full.points)} points`;
  close.way = measured(full.lines);
  const gap = widestGap(full.lines, low.lines);
  if (gap && gap.metres >= 0.05) {
    close.metres = Math.min(Math.max(gap.metres * 4, 20), 400);
    close.share = close.way.find((entry) => entry.point === gap.point)?.share ?? 0.5;
    byId("trail-gap").textContent = `Shown enlarged: where the low level strays furthest from the full path, ${gap.metres.toFixed(1)} m, measured here in the browser.`;
  } else {
    close.metres = Math.max(trail.lengthMetres / 20, 100);
    close.share = 0.5;
    byId("trail-gap").textContent = "All levels keep the same points here: none of them could be left out.";
    if (low.points < full.points) byId("trail-gap").textContent = "\u00a0";
  }
  controls(true);
  byId("trail-along").value = Math.round(close.share * 1000);
  paint();
}

function controls(on) {
  for (const id of ["trail-along", "trail-in", "trail-out"]) byId(id).disabled = !on;
}

async function fetchLevel(id, detail, signal) {
  const url = new URL(`/v1/tracks/${id}?detail=${detail}`, location.href).href;
  const told = timingOf(url);
  const response = await ask(url, { signal });
  const body = await response.arrayBuffer();
  const track = JSON.parse(new TextDecoder().decode(body));
  const entry = await told;
  return {
    lines: unwrap(track.segments),
    points: track.pointsReturned,
    tolerance: track.toleranceMetres,
    decoded: body.byteLength,
    encoding: response.headers.get("content-encoding"),
    // Zero is what a browser says that does not want to tell.
    transferred: entry?.encodedBodySize || undefined,
  };
}

/** The table that is legend, switch and result in one. */
function legend() {
  const rows = LEVELS.map(({ name }) => {
    const input = element("input", { type: "checkbox", checked: true });
    input.addEventListener("change", () => {
      shown[name] = input.checked;
      paint();
    });
    const label = element("label", {}, input, element("span", { class: `stroke ${name}`, "aria-hidden": "true" }), name);
    const cells = ["tolerance", "points", "transferred", "share", "decoded"].map((kind) => element("td", { class: kind }, "–"));
    return element("tr", { "data-level": name }, element("th", { scope: "row" }, label), ...cells);
  });
  document.querySelector("#trail-levels tbody").replaceChildren(...rows);
}

function figures() {
  for (const row of document.querySelectorAll("#trail-levels tbody tr")) {
    const level = levels[row.dataset.level];
    const share = levels.full && level && level !== levels.full ? percent(level.transferred, levels.full.transferred) : "";
    // Unrounded, for whoever points at them.
    row.title = level ? `${level.points} points, ${level.transferred ?? "?"} of ${level.decoded} bytes, ${level.encoding ?? "identity"}` : "";
    const text = {
      tolerance: level && (level.tolerance > 0 ? metres(level.tolerance) : "exact"),
      points: level && count(level.points),
      transferred: level && (level.transferred ? bytes(level.transferred) : "not told"),
      share,
      decoded: level && bytes(level.decoded),
    };
    for (const [kind, value] of Object.entries(text)) {
      row.querySelector(`.${kind}`).textContent = value ?? "–";
    }
  }
}

const percent = (part, whole) => (part && whole ? `${Math.max(1, Math.round((100 * part) / whole))} %` : "");

/** Draws what is there and switched on. */
function paint() {
  const there = LEVELS.filter(({ name }) => levels[name]).map((style) => ({ style, lines: levels[style.name].lines }));
  const on = there.filter(({ style }) => shown[style.name]);
  const best = there[0]?.lines;
  const box = best ? bounds(best) : { west: 0, east: 1, south: 0, north: 1 };
  const ready = close.way.length > 0;
  const centre = ready ? positionAt(close.way, close.share) : undefined;
  overview = draw(byId("trail-overview"), box, on, { padding: 28, scale: 0.85, mark: centre });
  const canvas = byId("trail-overview");
  canvas.dataset.levels = on.map(({ style }) => style.name).join(" ");
  if (ready) draw(byId("trail-close"), around(centre, close.metres), on, { padding: 0, scale: 1.3, dots: true });
  else draw(byId("trail-close"), box, [], { padding: 0 });
}

function moveTo(share) {
  close.share = share;
  byId("trail-gap").textContent = "\u00a0";
  paint();
}

function zoom(factor) {
  close.metres = Math.min(Math.max(close.metres * factor, 5), 2_000_000);
  paint();
}

function look(event) {
  if (!overview || close.way.length === 0) return;
  const share = nearestShare(close.way, overview, event.offsetX, event.offsetY);
  byId("trail-along").value = Math.round(share * 1000);
  moveTo(share);
}
