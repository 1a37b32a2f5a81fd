//! Metrics of articles and likes for `/metrics`.

use super::{Articles, UpkeepCounters};
use crate::exposition::Figures;
use prometheus_client::encoding::EncodeMetric as _;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use std::fmt::Error;
use std::sync::atomic::Ordering::Relaxed;

impl Articles {
    pub(crate) fn encode_metrics(&self, out: &mut Figures<'_>) -> Result<(), Error> {
        let likes = self.like_metrics();
        let help = "Likes and unlikes answered with their new state";
        out.counter("likes_acknowledged", help, likes.acknowledged)?;
        out.counter("likes_changed", "Likes added or removed", likes.changed)?;
        out.counter("likes_applied", "Likes applied from the log to their tables", likes.applied)?;
        out.counter("likes_batches", "Transactions that wrote likes", likes.batches)?;
        let help = "Likes waiting for a commit, or acknowledged and not yet in their tables";
        out.gauge("likes_pending", help, likes.pending)?;
        out.counter("likes_refused", "Likes refused because the queue was full", likes.refused)?;
        let help = "Acknowledged likes that the server of likes.url has lost";
        out.counter("likes_lost", help, likes.lost)?;
        let help = "Failed writes of acknowledged likes, each retried";
        out.counter("likes_flush_failures", help, likes.failed_flushes)?;
        let lag = ConstGauge::new(likes.lag.as_secs_f64());
        let help = "Age of the oldest acknowledged like that is not yet in its tables";
        let kind = lag.metric_type();
        lag.encode(out.0.encode_descriptor("likes_lag", help, Some(&Unit::Seconds), kind)?)?;
        let UpkeepCounters { passes, checked, repaired } = &*self.upkeep;
        let help = "Complete passes that compared counts with rows for all articles";
        out.counter("article_check_passes", help, passes.load(Relaxed))?;
        let help = "Articles whose counts were compared with their rows";
        out.counter("article_counts_checked", help, checked.load(Relaxed))?;
        let help = "Articles whose wrong counts were corrected";
        out.counter("article_counts_repaired", help, repaired.load(Relaxed))
    }
}
