//! The end-of-test summary, in k6's text and JSON shapes.

mod export;
mod handle;
mod humanize;
mod layout;
mod legacy;
mod text;
mod trend_stat;
mod values;

pub(crate) use export::export;
pub(crate) use handle::handle_summary_data;
pub(crate) use humanize::humanize;
pub use text::SummaryMode;
pub(crate) use text::{TextOptions, text};
pub(crate) use trend_stat::TrendStat;
pub(crate) use values::{SummaryData, SummaryMetric, SummaryPart, ThresholdResult, Values};
