import { bytes, byId } from "./page.js";
import { startLive } from "./live.js";
import { startMarkets } from "./markets.js";
import { startTrails } from "./trails.js";

/** What this page itself weighed, as the browser measured it. */
function weigh() {
  const navigation = performance.getEntriesByType("navigation")[0];
  const own = performance
    .getEntriesByType("resource")
    .filter((entry) => /^\/home\/[a-z]+\.[a-z]+$/.test(new URL(entry.name).pathname));
  const sum = own.reduce((total, entry) => total + entry.encodedBodySize, navigation?.encodedBodySize ?? 0);
  if (sum > 0) byId("weight").textContent = `This page: ${own.length + 1} files, ${bytes(sum)} compressed, all from this server.`;
}

startLive();
startTrails();
startMarkets();
if (document.readyState === "complete") weigh();
else addEventListener("load", () => setTimeout(weigh, 500));
