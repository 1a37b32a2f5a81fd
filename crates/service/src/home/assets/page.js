// What all parts of the page share: elements, numbers, requests. Text from outside becomes text nodes only.

const SVG = "http://www.w3.org/2000/svg";

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** An element with attributes and children; strings become text. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

/** Marks names written in Hangul, so that fonts and screen readers take them as Korean. */
export const languageOf = (text) => (/[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]/.test(text) ? "ko" : undefined);

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const count = (n) => whole.format(n);

/** Three digits, whatever the size. */
export function short(n) {
  if (n === 0) return "0";
  return new Intl.NumberFormat("en", { maximumSignificantDigits: n < 100 ? 2 : 3 }).format(n);
}

export const bytes = (n) => (n < 1000 ? `${whole.format(n)} B` : `${tenths.format(n / 1000)} kB`);

export function metres(n) {
  if (n < 1000) return `${whole.format(n)} m`;
  const format = n % 1000 === 0 || n >= 100_000 ? whole : tenths;
  return `${format.format(n / 1000)} km`;
}

/** What went wrong, in words for the reader. */
export class Refusal extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Asks the API; an error carries what the problem body says. */
export async function ask(url, options) {
  const response = await fetch(url, options).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Refusal("The server does not answer.", 0);
  });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  const fields = (problem.errors ?? []).map((e) => `${e.field}: ${e.detail}`).join("; ");
  throw new Refusal(fields || problem.detail || `The server answered ${response.status}.`, response.status);
}

export const askJson = async (url, options) => (await ask(url, options)).json();

/** Whether an error only says that something newer was asked for. */
export const isAborted = (error) => error?.name === "AbortError";

/** Calls `redraw` when the colours change: light and dark. */
export function onColours(redraw) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
}

/** Width and height of a small picture of values over time, whatever size it is shown in. */
const PICTURE = { width: 60, height: 20 };

/** The line of the last `shown` values, right-aligned, or the area below it; nothing where there is none. */
export function linePath(values, { most, shown, filled = false }) {
  const { width, height } = PICTURE;
  const step = width / (shown - 1);
  const left = width - (values.length - 1) * step;
  const y = (value) => height - 1 - (most > 0 ? value / most : 0) * (height - 3);
  const runs = [[]];
  values.forEach((value, at) => {
    if (value === null) runs.push([]);
    else runs.at(-1).push(`${(left + at * step).toFixed(2)} ${y(value).toFixed(2)}`);
  });
  const path = runs.filter((run) => run.length > 0).map((run) => {
    // A lone value is a dot of a line.
    const line = `M${run.length > 1 ? run.join("L") : `${run[0]}h0.01`}`;
    if (!filled) return line;
    return `${line}V${height}H${run[0].split(" ")[0]}Z`;
  });
  return path.join("");
}

/** The value of a colour of the style sheet. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Longest wait for the browser to tell what it measured. */
const TELLING_MS = 10_000;
const waiting = new Map();
const listeners = [];

/** Calls `listener` with each request's timing from the start of the page on. */
export function onTiming(listener) {
  listeners.push(listener);
}

/** What the browser measures of the next request to this address; nothing when it does not tell. */
export function timingOf(url) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, TELLING_MS);
    waiting.set(url, (entry) => {
      clearTimeout(timer);
      waiting.delete(url);
      resolve(entry);
    });
  });
}

// An observer hears of every request; the browser's own list of them ends at 250.
export function observeTimings() {
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      waiting.get(entry.name)?.(entry);
      for (const listener of listeners) listener(entry);
    }
    performance.clearResourceTimings();
  });
  observer.observe({ type: "resource", buffered: true });
}
