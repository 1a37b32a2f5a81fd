//! Metrics of markets on the metrics page.

use super::Markets;
use crate::exposition::{counter, gauge};
use prometheus_client::encoding::DescriptorEncoder;

impl Markets {
    /// Writes them.
    pub(crate) fn encode_metrics(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        let views = self.view_metrics();
        gauge(encoder, "markets", "Markets in memory", self.index().count() as u64)?;
        counter(
            encoder,
            "market_views_counted",
            "Market views counted, one per visitor and day",
            views.counted,
        )?;
        counter(
            encoder,
            "market_views_repeated",
            "Market views not counted because the visitor was counted on that day",
            views.repeated,
        )?;
        counter(
            encoder,
            "market_views_dropped",
            "Market views not counted: queue full, daily budget of the network used up, or store failure",
            views.dropped,
        )?;
        gauge(
            encoder,
            "market_views_pending",
            "Market views that are waiting to be counted",
            views.pending,
        )
    }
}
