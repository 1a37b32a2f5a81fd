//! What a run measures: definitions of metrics, and where their values are kept.

mod breakdown;
mod builtin;
mod histogram;
mod measured;
mod recent;
mod recorder;
mod registry;
mod scenario;
mod series;
mod sink;
mod system_tags;
mod tags;
mod totals;
mod troubles;
mod waits;
mod warm_up;

pub(crate) use breakdown::{Breakdown, Part};
pub(crate) use builtin::Builtin;
pub use histogram::Histogram;
pub(crate) use measured::{GroupMeasured, Measured, RequestKey};
pub(crate) use recent::Recent;
pub(crate) use recorder::{CheckCount, GroupId, Recorder, RequestMark, RequestSample};
pub(crate) use registry::{Contains, Metric, MetricId, MetricKind, Registry, TagFilter};
pub(crate) use scenario::ScenarioStats;
pub(crate) use series::Series;
pub(crate) use sink::Sink;
pub use system_tags::SystemTags;
pub(crate) use tags::{RequestTags, SampleTags};
pub(crate) use totals::{NameStats, Totals};
pub(crate) use troubles::Troubles;
pub(crate) use waits::Waits;
pub(crate) use warm_up::{Tally, WarmUp};
