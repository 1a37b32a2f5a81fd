// The last minute of this server, from its own counters, asked for each second while the page is seen.

import { ask, askJson, byId, count, linePath, short } from "./page.js";

const SHOWN = 60;
const PAUSE_MS = 1000;

let samples = [];
let timer;
let failures = 0;

export function startLive() {
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) poll();
  });
  byId("live-ask").addEventListener("click", (event) => askOften(event.currentTarget));
  if (!document.hidden) poll();
}

async function poll() {
  clearTimeout(timer);
  try {
    const last = samples.at(-1)?.number ?? 0;
    const figures = await askJson(`/home/figures?after=${last}`);
    // A server that has started anew counts from one again.
    const fresh = figures.samples[0]?.number <= last;
    samples = (fresh ? [] : samples).concat(figures.samples).slice(-SHOWN);
    failures = 0;
    show(figures);
  } catch {
    failures += 1;
    byId("live").classList.add("silent");
  }
  if (!document.hidden) timer = setTimeout(poll, PAUSE_MS * Math.min(1 + failures, 10));
}

function show(figures) {
  byId("live").classList.remove("silent");
  const now = samples.at(-1);
  if (!now) return;
  const rates = samples.map((s) => s.requestsPerSecond);
  const peak = Math.max(...rates);
  const rate = byId("live-rate");
  write(rate, ".big", short(now.requestsPerSecond));
  write(rate, ".peak", `peak ${short(peak)} this minute`);
  write(rate, ".total", `${count(figures.requests)} so far`);
  plot(rate, ".line", rates, peak);
  plot(rate, ".area", rates, peak, true);

  const latency = byId("live-latency");
  const text = (value) => (value === null ? "–" : short(value));
  write(latency, ".big", text(now.p50Milliseconds));
  write(latency, ".p95-value", `${text(now.p95Milliseconds)} ms`);
  write(latency, ".p99-value", `${text(now.p99Milliseconds)} ms`);
  const slowest = Math.max(...samples.map((s) => s.p99Milliseconds ?? 0));
  for (const name of ["p50", "p95", "p99"]) {
    plot(latency, `.line.${name}`, samples.map((s) => s[`${name}Milliseconds`]), slowest);
  }

  const hits = byId("live-hits");
  const ratios = samples.map((s) => s.cacheHitRatio);
  write(hits, ".big", now.cacheHitRatio === null ? "–" : short(Math.round(now.cacheHitRatio * 1000) / 10));
  plot(hits, ".line", ratios, 1);
  plot(hits, ".area", ratios, 1, true);
}

const write = (within, selector, text) => {
  within.querySelector(selector).textContent = text;
};

function plot(within, selector, values, most, filled = false) {
  within.querySelector(selector).setAttribute("d", linePath(values, { most, shown: SHOWN, filled }));
}

const ASKED = 200;
const AT_ONCE = 4;

/** Something to see on a quiet server: one small answer, asked for again and again. */
async function askOften(button) {
  button.disabled = true;
  let left = ASKED;
  const one = async () => {
    while (left > 0) {
      left -= 1;
      await (await ask("/v1/tracks?limit=1", { cache: "no-store" })).arrayBuffer();
    }
  };
  await Promise.allSettled(Array.from({ length: AT_ONCE }, one));
  button.disabled = false;
}
