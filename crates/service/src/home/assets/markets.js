// Search of markets: a list, and a dot on the map for each of its rows.

import { askJson, byId, count, element, isAborted, languageOf, metres } from "./page.js";
import { PROVINCES, clearDots, dot, mark, outline } from "./korea.js";

/** Pause in typing after which is searched; longer while a syllable is still being composed. */
const PAUSE_MS = 200;
const COMPOSING_PAUSE_MS = 450;
/** What is asked for at once: on the map many dots, in the list a few rows at a time. */
const PAGE = 100;
const ROWS = 8;

let here;
let found = [];
let rows = 0;
let cursor = "";
let asking;
let timer;

export function startMarkets() {
  const region = byId("market-region");
  for (const [, name, short, english] of PROVINCES) {
    region.append(element("option", { value: name, lang: "ko" }, `${short} ${english}`));
  }
  const query = byId("market-query");
  const later = (pause) => {
    clearTimeout(timer);
    timer = setTimeout(search, pause);
  };
  query.addEventListener("input", (event) => later(event.isComposing ? COMPOSING_PAUSE_MS : PAUSE_MS));
  query.addEventListener("compositionend", () => later(PAUSE_MS));
  region.addEventListener("change", search);
  byId("market-form").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  byId("market-near").addEventListener("click", near);
  byId("market-more").addEventListener("click", more);
  const map = outline(byId("market-map"), (name) => {
    region.value = region.value === name ? "" : name;
    search();
  });
  map.catch((error) => say(error.message));
  search();
}

const say = (text) => {
  byId("market-status").textContent = text;
};

/** What is typed, without the lone jamo of a syllable that is not finished. */
const typed = () => byId("market-query").value.replace(/[\u3131-\u318e]+$/, "").trim();

function address() {
  const query = new URLSearchParams({ limit: PAGE });
  if (typed()) query.set("q", typed());
  if (byId("market-region").value) query.set("region", byId("market-region").value);
  if (here) query.set("near", here.join(","));
  return query;
}

async function search() {
  clearTimeout(timer);
  mark(byId("market-map"), byId("market-region").value);
  await load(address(), () => {
    found = [];
    rows = 0;
    byId("market-list").replaceChildren();
    clearDots(byId("market-map"));
  });
}

/** Asks for a page; an answer that a newer question has overtaken is dropped. */
async function load(query, before) {
  asking?.abort();
  const mine = new AbortController();
  asking = mine;
  try {
    const page = await askJson(`/v1/markets?${query}`, { signal: mine.signal });
    before();
    cursor = page.nextCursor ?? "";
    page.items.forEach((market) => found.push({ market, dot: place(market) }));
    show();
  } catch (error) {
    if (isAborted(error)) return;
    before();
    cursor = "";
    show();
    if (error.status === 404) nothing();
    else say(error.message);
  }
}

function place(market) {
  if (!market.position) return undefined;
  const circle = dot(byId("market-map"), market.position, market.name, () => reveal(market.id));
  circle.dataset.id = market.id;
  return circle;
}

/** More rows of what is here, then the next page. */
async function more() {
  const first = rows;
  if (rows < found.length) show();
  else {
    const query = address();
    query.set("cursor", cursor);
    await load(query, () => {});
  }
  byId("market-list").children[first]?.querySelector("summary")?.focus();
}

function show() {
  const list = byId("market-list");
  const next = found.slice(rows, rows + ROWS);
  list.append(...next.map(row));
  rows += next.length;
  byId("market-more").hidden = rows >= found.length && !cursor;
  const searched = typed() || byId("market-region").value || here;
  if (found.length === 0 && !searched) return nothing();
  const all = `${cursor ? "The first " : ""}${count(found.length)} ${found.length === 1 ? "market" : "markets"}`;
  say(found.length === 0 ? "Nothing found." : rows < found.length ? `${all}, ${count(rows)} of them listed.` : `${all}.`);
  const placed = found.filter((entry) => entry.dot).length;
  const lost = found.length - placed;
  byId("market-caption").textContent = lost > 0 ? `${count(placed)} on the map; of ${count(lost)} the position is not known.` : "\u00a0";
}

function nothing() {
  byId("market-status").replaceChildren("No markets here yet: ", element("code", {}, "madang import markets FILE"));
}

function row({ market, dot: circle }) {
  const address = market.address ?? market.lotAddress ?? "";
  const distance = market.distanceMetres === undefined ? [] : [element("span", { class: "far" }, metres(market.distanceMetres))];
  const summary = element(
    "summary",
    {},
    element("span", { class: "name", lang: languageOf(market.name) }, market.name),
    ...distance,
    element("span", { class: "small", lang: languageOf(address) }, address),
  );
  const details = element("details", { name: "market" }, summary, element("div", { class: "more" }));
  const item = element("li", { "data-id": market.id }, details);
  const light = (on) => () => {
    circle?.classList.toggle("lit", on || details.open);
    if (on && circle) circle.parentNode.append(circle);
  };
  item.addEventListener("pointerenter", light(true));
  item.addEventListener("pointerleave", light(false));
  item.addEventListener("focusin", light(true));
  item.addEventListener("focusout", light(false));
  details.addEventListener("toggle", () => {
    light(details.open)();
    if (details.open) open(market, details.querySelector(".more"));
  });
  return item;
}

/** The facts of a market; how often it was viewed is asked for when its row is opened, which is a view. */
async function open(market, into) {
  const facts = (views) =>
    [
      ["Kind", market.type],
      ["Held", market.cycle],
      ["Stores", market.stores ? count(market.stores) : ""],
      ["Goods", (market.goods ?? []).join(", ")],
      ["Vouchers", (market.vouchers ?? []).join(", ")],
      ["Founded", market.foundedYear ? String(market.foundedYear) : ""],
      ["Telephone", market.phone],
      ["Viewed", views],
    ].filter(([, value]) => value);
  const show = (views) => {
    const rows = facts(views).flatMap(([name, value]) => [
      element("dt", {}, name),
      element("dd", { lang: languageOf(value) }, value),
    ]);
    into.replaceChildren(element("dl", {}, ...rows));
  };
  show("…");
  try {
    const { viewCount } = await askJson(`/v1/markets/${market.id}`);
    show(`by ${count(viewCount)} ${viewCount === 1 ? "visitor" : "visitors"}, each once a day`);
  } catch (error) {
    show(error.message);
  }
}

/** Opens the row of a dot, however far down it is. */
function reveal(id) {
  while (rows < found.length && !rowOf(id)) show();
  const details = rowOf(id)?.querySelector("details");
  if (!details) return;
  details.open = true;
  details.querySelector("summary").focus({ preventScroll: true });
  details.scrollIntoView({ block: "nearest" });
}

const rowOf = (id) => [...byId("market-list").children].find((item) => item.dataset.id === String(id));

/** The browser asks its user before it tells a place; nothing is stored. */
function near(event) {
  const button = event.currentTarget;
  if (here) {
    here = undefined;
    button.setAttribute("aria-pressed", "false");
    return search();
  }
  if (!navigator.geolocation) return say("This browser tells no position.");
  say("Waiting for the position…");
  navigator.geolocation.getCurrentPosition(
    ({ coords }) => {
      here = [coords.latitude.toFixed(4), coords.longitude.toFixed(4)];
      button.setAttribute("aria-pressed", "true");
      search();
    },
    () => say("The position was not told."),
    { timeout: 20_000 },
  );
}
