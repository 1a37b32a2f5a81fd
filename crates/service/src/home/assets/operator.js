// The operator's view: what the server counts, of the last ten minutes, and its last errors.

import { askJson, byId, count, drawn, element, linePath, short } from "./page.js";

const SHOWN = 300;
const PAUSE_MS = 2000;
const PATIENCE_MS = 10_000;
/** Where the token is kept: as long as this tab, and for this tab alone. */
const KEPT = "madang-operator-token";

const rate = (n) => `${short(n)}/s`;
const milliseconds = (n) => `${short(n)} ms`;
const seconds = (n) => `${short(n)} s`;
const percent = (n) => `${short(n * 100)} %`;

/** Bytes as the settings write them: powers of 1024. */
function size(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const at = n < 1024 ? 0 : Math.min(Math.floor(Math.log2(n) / 10), units.length - 1);
  return `${short(n / 1024 ** at)} ${units[at]}`;
}

/** Every picture: its lines are series of the answer, and what they are called. */
const PICTURES = [
  { id: "requests", title: "Requests", unit: "per second, by status", text: rate, lines: { answers2xx: "2xx", answers3xx: "3xx", answers4xx: "4xx", answers5xx: "5xx" } },
  { id: "latency", title: "Time to answer", unit: "ms, of the last ten seconds", text: milliseconds, lines: { p50Milliseconds: "p50", p99Milliseconds: "p99" } },
  { id: "hits", title: "Answered from the cache", unit: "% of lookups, of the last ten seconds", text: percent, most: 1, lines: { cacheHitRatio: "hit ratio" } },
  { id: "cache", title: "Size of the cache", unit: "bytes", text: size, lines: { cacheBytes: "cached bodies" } },
  { id: "guard", title: "Log-ins and sign-ups turned away", unit: "per second", text: rate, lines: { logInsRefused: "refused (429)", logInsChallenged: "challenged (429)" } },
  { id: "refused", title: "Requests turned away", unit: "per second", text: rate, lines: { rateLimited: "over a rate limit (429)", shed: "overload (503)" } },
  { id: "waiting", title: "Waiting", unit: "number at the moment", text: count, lines: { logInsWaiting: "log-ins and hashes", requestsWaiting: "requests for a turn", storeWaiting: "transactions" } },
  { id: "writes", title: "Writes", unit: "per second", text: rate, lines: { writes: "stored", writesFailed: "failed" } },
  { id: "log", title: "Write-ahead log", unit: "bytes", text: size, lines: { logBytes: "log" } },
  { id: "disk", title: "Free disk", unit: "bytes, data directory", text: size, lines: { diskFreeBytes: "free" } },
  { id: "likes", title: "Likes not in their tables", unit: "number", text: count, lines: { likesPending: "pending" } },
  { id: "lag", title: "Age of the oldest such like", unit: "seconds", text: seconds, lines: { likesLagSeconds: "age" } },
];

let token = sessionStorage.getItem(KEPT);
let timer;
let failures = 0;
let number = 0;
let startedAt;
let series = {};

function forget(why) {
  token = null;
  sessionStorage.removeItem(KEPT);
  clearTimeout(timer);
  restart();
  trouble(why);
  for (const id of ["view", "leave"]) byId(id).hidden = true;
  byId("enter").hidden = false;
  byId("token").value = "";
  byId("token").focus();
}

function restart() {
  number = 0;
  series = {};
}

function trouble(text = "") {
  const place = byId("trouble");
  // An alert is read out when it changes, so it changes only when there is something new.
  if (place.textContent !== text) place.textContent = text;
  place.hidden = text === "";
}

async function poll() {
  clearTimeout(timer);
  const asked = token;
  try {
    const figures = await askJson(`/home/operator/figures?after=${number}`, {
      headers: { Authorization: `Bearer ${asked}` },
      cache: "no-store",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    if (asked !== token) return;
    failures = 0;
    trouble();
    take(figures);
  } catch (error) {
    if (asked !== token) return;
    if (error.status === 401) return forget("The token is wrong.");
    if (error.status === 404) return forget("This server has no operator’s view any more.");
    failures += 1;
    byId("view").classList.add("silent");
    const kept = number > 0 ? " What is shown is old." : "";
    trouble(`${error.message.replace(/\.?$/, ".")} Trying again.${kept}`);
  }
  if (!document.hidden) timer = setTimeout(poll, PAUSE_MS * Math.min(1 + failures, 5));
}

function take(figures) {
  const isNew = figures.startedAt !== startedAt;
  startedAt = figures.startedAt;
  // What came is only the end of what a server that has started anew has.
  if (isNew && number > 0) return restart();
  number = figures.number;
  const lags = figures.replicas.map((replica) => [`lag of ${replica.name}`, replica.lagSeconds]);
  for (const [name, values] of [...Object.entries(figures.series), ...lags]) {
    series[name] = (series[name] ?? []).concat(values).slice(-SHOWN);
  }
  show(figures);
}

function show(figures) {
  byId("enter").hidden = true;
  for (const id of ["view", "leave"]) byId(id).hidden = false;
  byId("view").classList.remove("silent");
  const about = `Version ${figures.version}, started ${when(figures.startedAt)}. A sample every ${figures.intervalSeconds} s; requests for this page are not counted.`;
  if (byId("about").textContent !== about) byId("about").textContent = about;
  for (const picture of PICTURES) {
    const most = picture.id === "cache" ? figures.cacheCapacityBytes : picture.most;
    draw({ ...picture, most });
  }
  if (figures.replicas.length > 0) {
    const named = figures.replicas.map((one) => {
      const use = one.isUsed ? `${count(one.reads)} reads` : "not used";
      return [`lag of ${one.name}`, `${one.name}, ${use}`];
    });
    draw({ id: "replicas", title: "Lag of replicas", unit: "seconds", text: seconds, lines: Object.fromEntries(named) });
  }
  list(figures.errors);
}

/** Draws a picture, unless this server has none of its values; its element is made when it is first drawn. */
function draw({ id, title, unit, text, most, lines }) {
  const names = Object.keys(lines).filter((name) => series[name]?.some((value) => value !== null));
  if (names.length === 0) return;
  const figure = byId(id) ?? byId("pictures").appendChild(frame(id, title, unit));
  const peak = Math.max(...names.flatMap((name) => series[name].map((value) => value ?? 0)));
  const scale = most ?? peak;
  const paths = names.map((name, at) =>
    drawn("path", { class: `line l${at % 4}`, d: linePath(series[name], { most: scale, shown: SHOWN }) }));
  figure.querySelector("svg").replaceChildren(...paths);
  figure.querySelector(".top-value").textContent = `top ${text(scale)}, peak ${text(peak)}`;
  const items = names.map((name, at) => {
    const now = series[name].at(-1);
    const key = drawn("svg", { viewBox: "0 0 34 8", "aria-hidden": "true" }, drawn("path", { class: `line l${at % 4}`, d: "M0 4H34" }));
    return element("li", {}, key, element("span", {}, lines[name]), element("b", {}, now === null ? "–" : text(now)));
  });
  figure.querySelector("ul").replaceChildren(...items);
}

function frame(id, title, unit) {
  const caption = element("figcaption", {}, element("h2", { id: `${id}-title` }, title), " ", element("span", { class: "unit" }, unit));
  const svg = drawn("svg", { viewBox: "0 0 60 20", preserveAspectRatio: "none", role: "img", "aria-labelledby": `${id}-title` });
  const span = element("p", { class: "span" }, element("span", {}, "10 min ago"), element("span", { class: "top-value" }), element("span", {}, "now"));
  return element("figure", { class: "gauge", id, "aria-labelledby": `${id}-title` }, caption, svg, span, element("ul"));
}

const clock = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
const when = (time) => clock.format(new Date(time));

function list(errors) {
  byId("no-errors").hidden = errors.length > 0;
  byId("errors").hidden = errors.length === 0;
  const rows = errors.map((error) =>
    element("tr", {},
      element("td", {}, when(error.at), error.count > 1 ? element("span", { class: "small" }, `${count(error.count)} times`) : ""),
      element("td", {}, `${error.status} ${error.method} ${error.route}`, element("span", { class: "small" }, error.requestId)),
      element("td", {}, error.message)));
  byId("errors").tBodies[0].replaceChildren(...rows);
}

byId("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = byId("token").value.trim();
  // A header can carry nothing else, and no token has anything else in it.
  if (!/^[\x21-\x7e]+$/.test(given)) return forget("The token is wrong.");
  token = given;
  sessionStorage.setItem(KEPT, token);
  poll();
});
byId("leave").addEventListener("click", () => forget());
document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (token && !document.hidden) poll();
});
if (token) poll();
else byId("enter").hidden = false;
