//! Figures of a round, one number each.

use serde::{Serialize, Serializer};

use crate::journal::record::Measured;
use crate::judge::answer::Direction;
use crate::judge::part::StackPart;
use crate::load::metric::LoadMetric;
use crate::observe::database::Figure;
use crate::observe::prometheus::Selector;

/// A figure of a round: the unit of statistics is the round.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Good requests per second: those that did not fail and none of whose checks failed.
    Goodput,
    /// Share of good requests, from 0 to 1. Only a row where a prediction names it; reports show the share of bad ones.
    GoodShare,
    /// A statistic of `http_req_duration` (sending, waiting, receiving) in milliseconds, over all requests.
    Latency(Statistic),
    /// A statistic of the response times from the intended start of iterations in open-model scenarios (the worst of
    /// several), otherwise equal to `Latency`.
    Response(Statistic),
    /// User and system time of the server's process tree per good request.
    CpuPerGoodRequest,
    /// Peak memory of the server's process tree; shared memory counts once.
    PeakMemory,
    /// Peak sum of its processes' resident memory. Only where a prediction names it.
    PeakRss,
    /// Another figure of the load, by k6's name.
    Load(LoadMetric),
    /// Change of a series of the server's metrics page over the round, warm-up included.
    Server(Selector),
    Database(Figure),
    /// A figure of a process or part of a stack, by name.
    Part(Box<Metric>, String),
}

/// A statistic of response times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Statistic {
    Mean,
    P50,
    P90,
    P95,
    P99,
    Max,
}

/// Reason for a missing value, to follow "because".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Absent {
    /// Then figures per good request do not exist, and response times are those of refusals.
    #[error("no request was good")]
    NoGoodRequest,
    #[error("the server was not started by the lab and cannot be observed")]
    NotObserved,
    #[error("children of the server ended without being waited for, so its CPU time is not known")]
    CpuUnknown,
    #[error("the load report does not have it")]
    NotReported,
    /// The load report has another kind of metric with this name.
    #[error("metrics of its kind do not have this statistic")]
    NoSuchStatistic,
    #[error("the server's metrics page does not have it")]
    NotOnPage,
    #[error("this variant has no such server beside it")]
    NoDatabase,
    /// Or one of its processes ended.
    #[error("this variant has no such part")]
    NoPart,
    /// Zero, although it cannot be: the window was too short.
    #[error("it was too small to measure in so short a time")]
    TooSmall,
    /// Zero or negative: a value without a ratio.
    #[error("it was not above zero")]
    NotPositive,
}

impl Metric {
    /// Metrics of every report, in order.
    pub const ALL: [Self; 12] = [
        Self::Goodput,
        Self::Latency(Statistic::Mean),
        Self::Latency(Statistic::P50),
        Self::Latency(Statistic::P90),
        Self::Latency(Statistic::P95),
        Self::Latency(Statistic::P99),
        Self::Latency(Statistic::Max),
        Self::CpuPerGoodRequest,
        Self::PeakMemory,
        Self::Response(Statistic::P50),
        Self::Response(Statistic::P95),
        Self::Response(Statistic::P99),
    ];

    /// Name in files.
    pub fn id(&self) -> String {
        match self {
            Self::Goodput => "goodput".to_owned(),
            Self::GoodShare => "good_share".to_owned(),
            Self::Latency(statistic) => format!("http_req_duration.{}", statistic.name()),
            Self::Response(statistic) => format!("response_time.{}", statistic.name()),
            Self::CpuPerGoodRequest => "cpu_per_good_request".to_owned(),
            Self::PeakMemory => "peak_memory".to_owned(),
            Self::PeakRss => "peak_rss".to_owned(),
            Self::Load(metric) => metric.to_string(),
            Self::Server(series) => series.to_string(),
            Self::Database(figure) => figure.to_string(),
            Self::Part(whole, name) => format!("{}.{name}", whole.id()),
        }
    }

    /// Metrics without a load metric, series or database, in the order of messages.
    pub fn own() -> impl Iterator<Item = Self> {
        let further = [
            Self::GoodShare,
            Self::PeakRss,
            Self::Response(Statistic::Mean),
            Self::Response(Statistic::P90),
            Self::Response(Statistic::Max),
        ];
        let parts = |whole: Self| StackPart::ALL.map(|part| whole.of_group(part.name()));
        Self::ALL.into_iter().chain(further).chain(Self::OF_GROUPS.into_iter().flat_map(parts))
    }

    /// Figures that groups of processes also have.
    pub const OF_GROUPS: [Self; 2] = [Self::CpuPerGoodRequest, Self::PeakMemory];

    pub fn of_group(&self, name: &str) -> Self {
        Self::Part(Box::new(self.clone()), name.to_owned())
    }

    pub fn from_id(id: &str) -> Option<Self> {
        let process = id.rsplit_once('.').map(|(_, name)| name);
        let process = process.filter(|name| StackPart::of_process(name).is_some());
        let of_process = |name| Self::OF_GROUPS.map(|whole| whole.of_group(name));
        let of_process = process.into_iter().flat_map(of_process);
        Self::own().chain(of_process).find(|metric| metric.id() == id)
    }

    /// True if it counts good requests, so that zero is a value.
    pub fn counts_good(&self) -> bool {
        match self {
            Self::Goodput | Self::GoodShare => true,
            Self::Load(metric) => metric.name == "good_reqs",
            _ => false,
        }
    }

    /// True if it is meaningless without a good request.
    pub fn needs_good(&self) -> bool {
        match self {
            Self::CpuPerGoodRequest => true,
            Self::Part(whole, _) => whole.needs_good(),
            _ => self.counts_good() || self.is_response_time(),
        }
    }

    pub fn may_be_zero(&self) -> bool {
        !matches!(self, Self::CpuPerGoodRequest | Self::PeakMemory | Self::PeakRss)
            && !self.is_response_time()
    }

    /// True for costs of the server, which pairs can measure.
    pub fn is_cost(&self) -> bool {
        match self {
            Self::CpuPerGoodRequest | Self::PeakMemory | Self::PeakRss => true,
            Self::Part(whole, _) => whole.is_cost(),
            _ => false,
        }
    }

    pub fn direction(&self) -> Direction {
        match self {
            Self::Goodput | Self::GoodShare => Direction::More,
            Self::Latency(_) | Self::Response(_) => Direction::Less,
            Self::CpuPerGoodRequest | Self::PeakMemory | Self::PeakRss | Self::Part(..) => {
                Direction::Less
            }
            Self::Load(metric) => metric.direction(),
            Self::Server(_) | Self::Database(_) => Direction::Unknown,
        }
    }

    pub fn is_response_time(&self) -> bool {
        match self {
            Self::Latency(_) | Self::Response(_) => true,
            Self::Load(metric) => metric.is_response_time(),
            _ => false,
        }
    }

    /// True if too few of its requests were good.
    pub fn has_bad_requests(&self, round: &Measured) -> bool {
        match self {
            Self::Load(metric) if !metric.tags.is_empty() => match metric.failed_share(&round.load)
            {
                Some(share) => share > 1.0 - crate::journal::record::GOOD_LIMIT,
                None => round.has_bad_requests(),
            },
            _ => round.has_bad_requests(),
        }
    }

    /// Number of values above a percentile or the maximum; `None` for other metrics, and without counts.
    pub fn tail(&self, round: &Measured) -> Option<f64> {
        let (share, trend) = match self {
            Self::Latency(statistic) => (statistic.tail()?, *round.load.http_req_duration()?),
            Self::Response(statistic) => {
                let trends = round.load.response_times().into_iter();
                (statistic.tail()?, trends.min_by_key(|trend| trend.count)?)
            }
            Self::Load(metric) => metric.tail(&round.load)?,
            _ => return None,
        };
        (trend.count > 0).then_some(share * trend.count as f64)
    }

    pub fn label(&self) -> String {
        match self {
            Self::Goodput => "good requests/s",
            Self::GoodShare => "share of good requests",
            Self::Response(Statistic::P50) => "response time, p50",
            Self::Response(Statistic::P95) => "response time, p95",
            Self::Response(Statistic::P99) => "response time, p99",
            Self::CpuPerGoodRequest => "CPU per good request",
            Self::Part(whole, name) => return format!("{}, {name}", whole.label()),
            Self::PeakMemory => "memory, peak",
            Self::PeakRss => "sum of resident memory, peak",
            _ => return self.id(),
        }
        .to_owned()
    }

    pub fn unit(&self) -> &'static str {
        match self {
            Self::Load(metric) => metric.unit(),
            Self::Database(figure) => figure.unit,
            Self::Server(_) | Self::GoodShare => "",
            Self::Goodput => "1/s",
            Self::Latency(_) | Self::Response(_) => "ms",
            Self::Part(whole, _) => whole.unit(),
            Self::CpuPerGoodRequest => "us",
            Self::PeakMemory | Self::PeakRss => "bytes",
        }
    }

    /// Value in a round for a ratio: positive and finite.
    ///
    /// # Errors
    /// With the reason for a missing value.
    pub fn value_for_ratio(&self, round: &Measured) -> Result<f64, Absent> {
        let value = self.level(round)?;
        match value {
            value if value > 0.0 => Ok(value),
            _ if self.counts_good() => Err(Absent::NoGoodRequest),
            _ if self.may_be_zero() => Err(Absent::NotPositive),
            _ => Err(Absent::TooSmall),
        }
    }

    /// Value in a round.
    ///
    /// # Errors
    /// With the reason for a missing value.
    pub fn level(&self, round: &Measured) -> Result<f64, Absent> {
        let good = round.load.requests.good as f64;
        let server = || round.server.as_ref().ok_or(Absent::NotObserved);
        let us_per_good = |seconds: Option<f64>| match seconds {
            _ if good == 0.0 => Err(Absent::NoGoodRequest),
            Some(seconds) => Ok(seconds * 1e6 / good),
            None => Err(Absent::CpuUnknown),
        };
        let value = match self {
            Self::Goodput => good / round.load.duration_seconds,
            Self::GoodShare => round.load.good_share().ok_or(Absent::NotReported)?,
            // Refusals may be fast.
            metric if metric.is_response_time() && good == 0.0 => {
                return Err(Absent::NoGoodRequest);
            }
            Self::Latency(statistic) => {
                let durations = round.load.http_req_duration();
                statistic.value_in(durations.ok_or(Absent::NotReported)?)
            }
            Self::Response(statistic) => {
                let trends = round.load.response_times();
                let worst = trends.iter().map(|trend| statistic.value_in(trend)).reduce(f64::max);
                worst.ok_or(Absent::NotReported)?
            }
            Self::CpuPerGoodRequest => us_per_good(server()?.cpu_with_drain())?,
            Self::PeakMemory => server()?.memory() as f64,
            Self::PeakRss => server()?.peak_rss_bytes as f64,
            Self::Load(metric) => metric.value_in(&round.load)?,
            Self::Server(series) => {
                let name = series.to_string();
                let change = round.observed.iter().find(|observed| observed.series == name);
                change.and_then(|observed| observed.change).ok_or(Absent::NotOnPage)?
            }
            Self::Part(whole, name) if **whole == Self::PeakMemory => {
                *round.process_memory.get(name).ok_or(Absent::NoPart)? as f64
            }
            Self::Part(_, name) => {
                let seconds = round.processes.get(name).ok_or(Absent::NoPart)?;
                us_per_good(round.in_window(*seconds))?
            }
            Self::Database(figure) => {
                *round.databases.get(&figure.to_string()).ok_or(Absent::NoDatabase)?
            }
        };
        if value.is_finite() { Ok(value) } else { Err(Absent::TooSmall) }
    }

    /// Formats a value with its unit, to three or four significant digits.
    pub fn show(&self, value: f64) -> String {
        match self.unit() {
            _ if *self == Self::Goodput && value == 0.0 => "0 req/s".to_owned(),
            _ if *self == Self::Goodput => format!("{} req/s", digits(value)),
            "ms" if value >= 1000.0 => format!("{} s", digits(value / 1000.0)),
            "ms" if value < 1.0 => format!("{} µs", digits(value * 1000.0)),
            "ms" => format!("{} ms", digits(value)),
            "us" if value >= 1000.0 => format!("{} ms", digits(value / 1000.0)),
            "us" => format!("{} µs", digits(value)),
            "bytes" => format!("{} MiB", digits(value / 1_048_576.0)),
            "1/s" if value == 0.0 => "0 /s".to_owned(),
            "1/s" => format!("{} /s", digits(value)),
            // Geometric means of whole numbers differ in the last digits.
            _ if (value - value.round()).abs() < 1e-9 && value.abs() < 1e6 => format!("{value:.0}"),
            // Shares need more digits.
            _ if value.abs() < 1.0 => format!("{value:.4}"),
            _ => digits(value),
        }
    }
}

impl Statistic {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mean => "avg",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::Max => "max",
        }
    }

    fn value_in(self, trend: &crate::load::report::Trend) -> f64 {
        match self {
            Self::Mean => trend.avg,
            Self::P50 => trend.p50,
            Self::P90 => trend.p90,
            Self::P95 => trend.p95,
            Self::P99 => trend.p99,
            Self::Max => trend.max,
        }
    }

    /// Share of the values above it.
    fn tail(self) -> Option<f64> {
        match self {
            Self::Mean => None,
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.1),
            Self::P95 => Some(0.05),
            Self::P99 => Some(0.01),
            Self::Max => Some(0.0),
        }
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.id())
    }
}

/// Three significant digits, but always the whole part; thousands are separated.
pub(crate) fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        let left = whole.len() - place;
        // Separators help from ten thousand on.
        if place > 0 && left.is_multiple_of(3) && whole.len() > 4 {
            grouped.push('\u{2009}');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_found_by_its_name() {
        for metric in Metric::own() {
            assert_eq!(Metric::from_id(&metric.id()), Some(metric));
        }
        assert_eq!(Metric::from_id("http_req_duration"), None);
    }

    #[test]
    fn values_are_shown_in_units_a_person_would_choose() {
        let p95 = Metric::Latency(Statistic::P95);
        assert_eq!(p95.show(0.1234), "123 µs");
        assert_eq!(p95.show(12.345), "12.3 ms");
        assert_eq!(p95.show(7800.0), "7.80 s");
        assert_eq!(Metric::Goodput.show(1234.6), "1235 req/s");
        assert_eq!(Metric::Goodput.show(123_456.0), "123\u{2009}456 req/s");
        assert_eq!(Metric::Goodput.show(0.0), "0 req/s");
        assert_eq!(Metric::PeakRss.show(52_428_800.0), "50.0 MiB");
        assert_eq!(digits(99.96), "100");
    }
}
