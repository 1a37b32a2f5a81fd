import { bytes, byId, observeTimings, onTiming } from "./page.js";
import { startLive } from "./live.js";
import { startMarkets } from "./markets.js";
import { startTrails } from "./trails.js";

/** What this page itself weighs, as the browser measures it: its files, not the data it shows. */
function weigh() {
  const files = new Map();
  onTiming((entry) => {
    const { pathname } = new URL(entry.name);
    if (!/^\/home\/\w+\.\w+$/.test(pathname)) return;
    files.set(pathname, entry.encodedBodySize);
    const page = performance.getEntriesByType("navigation")[0]?.encodedBodySize ?? 0;
    const sum = [...files.values()].reduce((a, b) => a + b, page);
    byId("weight").textContent = `This page: ${files.size + 1} files, ${bytes(sum)} as transferred, all from this server.`;
  });
}

weigh();
observeTimings();
startLive();
startTrails();
startMarkets();
