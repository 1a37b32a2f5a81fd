//! The figures a round is reduced to, one number each.

use serde::{Serialize, Serializer};

use crate::journal::record::Measured;
use crate::judge::answer::Direction;
use crate::judge::part::StackPart;
use crate::load::metric::LoadMetric;
use crate::observe::database::Figure;
use crate::observe::prometheus::Selector;

/// One figure of a round. The unit of statistics is the round, so each is a single number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Good requests per second: those that did not fail and none of whose checks failed.
    Goodput,
    /// Share of the requests that were good, from 0 to 1. Judged against an earlier run and where a
    /// prediction names it; otherwise no row of a report, whose figures have it the other way round.
    GoodShare,
    /// A statistic of k6's `http_req_duration` (sending, waiting, receiving), in milliseconds,
    /// over all requests of the measured window, good or not.
    Latency(Statistic),
    /// A statistic of the response times from the intended start of iterations, in open-model scenarios (the worst of
    /// several), otherwise equal to `Latency`.
    Response(Statistic),
    /// CPU time of the server's process tree, user and system, per good request.
    CpuPerGoodRequest,
    /// Largest memory of the server's process tree among the samples of the window; what several
    /// processes share counts once.
    PeakMemory,
    /// Largest sum of the resident memory of its processes; what several share counts for each.
    /// Only where a prediction is about it.
    PeakRss,
    /// Any other figure of the load run, by k6's name.
    Load(LoadMetric),
    /// By how much a series of the server's metrics page changed over the round, warm-up included.
    Server(Selector),
    Database(Figure),
    /// The same of some processes of a stack, by the name of the process or part.
    Part(Box<Metric>, String),
}

/// What is taken of a round's response times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Statistic {
    Mean,
    P50,
    P90,
    P95,
    P99,
    Max,
}

/// Why a round has no number for a metric, to follow "because".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Absent {
    /// So nothing can be said per good request, the logarithm of a throughput does not exist, and
    /// response times would be those of refusals.
    #[error("no request was good")]
    NoGoodRequest,
    #[error("the server was not started by the lab and cannot be observed")]
    NotObserved,
    #[error("children of the server ended without being waited for, so its CPU time is not known")]
    CpuUnknown,
    #[error("the load report does not have it")]
    NotReported,
    /// The load report has another kind of metric under this name.
    #[error("metrics of its kind do not have this statistic")]
    NoSuchStatistic,
    #[error("the server's metrics page does not have it")]
    NotOnPage,
    #[error("this variant has no such server beside it")]
    NoDatabase,
    /// Or not all of its processes lived.
    #[error("this variant has no such part")]
    NoPart,
    /// It came out as zero, which no time is: the window was too short.
    #[error("it was too small to measure in so short a time")]
    TooSmall,
    /// It is zero, or a series of the server's went down: a value, but none to take a ratio of.
    #[error("it was not above zero")]
    NotPositive,
}

impl Metric {
    /// The metrics that every report has, in its order.
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

    /// Its name in files.
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

    /// All that need no load metric, series or database to be named, in the order of messages.
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

    /// Figures that groups of processes have as well.
    pub const OF_GROUPS: [Self; 2] = [Self::CpuPerGoodRequest, Self::PeakMemory];

    /// The same of some processes of a stack.
    pub fn of_group(&self, name: &str) -> Self {
        Self::Part(Box::new(self.clone()), name.to_owned())
    }

    pub fn from_id(id: &str) -> Option<Self> {
        let process = id.rsplit_once('.').map(|(_, name)| name);
        let process = process.filter(|name| StackPart::of(name).is_some());
        let of_process = |name| Self::OF_GROUPS.map(|whole| whole.of_group(name));
        let of_process = process.into_iter().flat_map(of_process);
        Self::own().chain(of_process).find(|metric| metric.id() == id)
    }

    /// Whether it tells how many requests were good, so that it is zero when none was.
    pub fn counts_good(&self) -> bool {
        match self {
            Self::Goodput | Self::GoodShare => true,
            Self::Load(metric) => metric.name == "good_reqs",
            _ => false,
        }
    }

    /// Whether it tells nothing about a round in which no request was good.
    pub fn needs_good(&self) -> bool {
        match self {
            Self::CpuPerGoodRequest => true,
            Self::Part(whole, _) => whole.needs_good(),
            _ => self.counts_good() || self.is_response_time(),
        }
    }

    /// Whether zero is a value of it, not a sign that it could not be measured.
    pub fn may_be_zero(&self) -> bool {
        !matches!(self, Self::CpuPerGoodRequest | Self::PeakMemory | Self::PeakRss)
            && !self.is_response_time()
    }

    /// Whether it is a cost of the server, which two variants can be measured for at the same moment.
    pub fn is_cost(&self) -> bool {
        match self {
            Self::CpuPerGoodRequest | Self::PeakMemory | Self::PeakRss => true,
            Self::Part(whole, _) => whole.is_cost(),
            _ => false,
        }
    }

    /// Better direction, if known.
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

    /// Whether it is about response times, which tell about refusals when requests were refused.
    pub fn is_response_time(&self) -> bool {
        match self {
            Self::Latency(_) | Self::Response(_) => true,
            Self::Load(metric) => metric.is_response_time(),
            _ => false,
        }
    }

    /// Whether so many of the requests it is about were not good that it tells about refusals.
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

    /// How many values of a round lie above it, of a percentile or the largest; `None` of anything else, and where the
    /// generator did not count.
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

    /// Its value in a round, for a ratio.
    ///
    /// # Errors
    /// Why there is none. Never zero, negative or infinite, so that a ratio can be taken.
    pub fn value_for_ratio(&self, round: &Measured) -> Result<f64, Absent> {
        let value = self.level(round)?;
        match value {
            value if value > 0.0 => Ok(value),
            _ if self.counts_good() => Err(Absent::NoGoodRequest),
            _ if self.may_be_zero() => Err(Absent::NotPositive),
            _ => Err(Absent::TooSmall),
        }
    }

    pub fn level(&self, round: &Measured) -> Result<f64, Absent> {
        let good = round.load.requests.good as f64;
        let value = match self {
            Self::Goodput => good / round.load.duration_seconds,
            Self::GoodShare => round.load.good_share().ok_or(Absent::NotReported)?,
            // However fast the refusals came: nobody was served.
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
            Self::CpuPerGoodRequest => {
                let server = round.server.as_ref().ok_or(Absent::NotObserved)?;
                if good == 0.0 {
                    return Err(Absent::NoGoodRequest);
                }
                server.cpu_with_drain().ok_or(Absent::CpuUnknown)? * 1e6 / good
            }
            Self::PeakMemory => round.server.as_ref().ok_or(Absent::NotObserved)?.memory() as f64,
            Self::PeakRss => {
                round.server.as_ref().ok_or(Absent::NotObserved)?.peak_rss_bytes as f64
            }
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
                if good == 0.0 {
                    return Err(Absent::NoGoodRequest);
                }
                round.in_window(*seconds).ok_or(Absent::CpuUnknown)? * 1e6 / good
            }
            Self::Database(figure) => {
                *round.databases.get(&figure.to_string()).ok_or(Absent::NoDatabase)?
            }
        };
        if value.is_finite() { Ok(value) } else { Err(Absent::TooSmall) }
    }

    /// A value with its unit, to three or four significant digits, as a person writes it.
    pub fn show(&self, value: f64) -> String {
        let time = self.unit() == "ms";
        match self {
            Self::Goodput if value == 0.0 => "0 req/s".to_owned(),
            Self::Goodput => format!("{} req/s", digits(value)),
            _ if time && value >= 1000.0 => format!("{} s", digits(value / 1000.0)),
            _ if time && value < 1.0 => format!("{} µs", digits(value * 1000.0)),
            _ if time => format!("{} ms", digits(value)),
            _ if self.unit() == "us" && value >= 1000.0 => format!("{} ms", digits(value / 1000.0)),
            _ if self.unit() == "us" => format!("{} µs", digits(value)),
            _ if self.unit() == "bytes" => format!("{} MiB", digits(value / 1_048_576.0)),
            _ if self.unit() == "1/s" && value == 0.0 => "0 /s".to_owned(),
            _ if self.unit() == "1/s" => format!("{} /s", digits(value)),
            // A mean of logarithms is no whole number to the last digit.
            _ if (value - value.round()).abs() < 1e-9 && value.abs() < 1e6 => format!("{value:.0}"),
            // A share tells nothing with two digits after the point.
            _ if value.abs() < 1.0 => format!("{value:.4}"),
            _ => digits(value),
        }
    }
}

impl Statistic {
    fn name(self) -> &'static str {
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

/// Three significant digits, but never fewer than the whole part; thousands apart.
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
        // Ten thousand is where a reader begins to count digits.
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
