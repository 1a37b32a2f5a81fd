//! Metrics of markets on `/metrics`.

use super::Markets;
use crate::exposition::Figures;

impl Markets {
    pub(crate) fn encode_metrics(&self, out: &mut Figures<'_>) -> Result<(), std::fmt::Error> {
        let views = self.inner.views.get().map(|views| views.metrics()).unwrap_or_default();
        out.gauge("markets", "Markets in memory", self.index().count() as u64)?;
        let help = "Market views counted, one per visitor and day";
        out.counter("market_views_counted", help, views.counted)?;
        let help = "Market views not counted because the visitor was counted on that day";
        out.counter("market_views_repeated", help, views.repeated)?;
        let help = "Market views not counted: queue full, daily budget of the network used up, or store failure";
        out.counter("market_views_dropped", help, views.dropped)?;
        let help = "Market views that are waiting to be counted";
        out.gauge("market_views_pending", help, views.pending)
    }
}
