//! Metrics of a run and their values.

mod breakdown;
mod builtin;
mod histogram;
mod measured;
mod recorder;
mod registry;
mod series;
mod sink;
mod stats;
mod system_tags;
mod tags;
mod troubles;
mod waits;
mod warm_up;

pub(crate) use breakdown::{Breakdown, Part};
pub(crate) use builtin::Builtin;
pub use histogram::Histogram;
pub(crate) use measured::{GroupMeasured, Measured, RequestKey};
pub(crate) use recorder::{GroupId, Recorder, RequestMark, RequestSample};
pub(crate) use registry::{Contains, Metric, MetricId, MetricKind, Registry, TagFilter};
pub(crate) use series::Series;
pub(crate) use sink::Sink;
pub(crate) use stats::{CheckCount, RequestStats, ScenarioStats};
pub use system_tags::SystemTags;
pub(crate) use tags::{RequestTags, SampleTags};
pub(crate) use troubles::Troubles;
pub(crate) use waits::Waits;
pub(crate) use warm_up::{Tally, WarmUp};
