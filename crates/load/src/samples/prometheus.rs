//! Prometheus' remote write (k6's `internal/output/prometheusrw`): changed series as snappy-compressed protobuf, every
//! five seconds.

use std::io;
use std::time::Duration;

use prost::Message as _;

use super::Batch;
use super::native_histogram::{Buckets, NativeHistogram, SCHEMA, ZERO_THRESHOLD};
use super::post::Server;
use super::series::{Distribution, Series, Table, Tags, Value, given};
use super::variables::Variables;
use crate::http::{TlsVersion, Url};
use crate::metrics::{Contains, Histogram, Metric, Registry};
use crate::options::OptionsError;
use crate::summary::TrendStat;

// k6's defaults.
const ADDRESS: &str = "http://localhost:9090/api/v1/write";
const INTERVAL: Duration = Duration::from_secs(5);
const TREND_STATS: &str = "p(99)";

/// The marker for the end of a series (Prometheus' `value.StaleNaN`).
const STALE: u64 = 0x7ff0_0000_0000_0002;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct PrometheusSettings {
    server: Server,
    target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) interval: Duration,
    trend: Trend,
    /// Mark the end of all series.
    marks_stale: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Trend {
    /// A series for each statistic, with the suffix of its name.
    Stats(Vec<(String, Stat)>),
    NativeHistogram,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stat {
    Sum,
    Other(TrendStat),
}

impl PrometheusSettings {
    /// Reads k6's environment variables; a non-empty address wins over them.
    pub(super) fn parse(
        address: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, OptionsError> {
        let variables = Variables::new("K6_PROMETHEUS_RW_", &variable);
        for missing in ["SIGV4_REGION", "SIGV4_ACCESS_KEY", "SIGV4_SECRET_KEY"] {
            variables.refuse(missing)?;
        }
        let given = variables.text("SERVER_URL").unwrap_or_else(|| ADDRESS.to_owned());
        let address = if address.is_empty() { given } else { address.to_owned() };
        let url = Url::parse(&address).map_err(|error| variables.wrong("SERVER_URL", error))?;
        let mut server = Server::at(&url);
        if let Some(user) = variables.text("USERNAME") {
            server.log_in(&user, &variables.text("PASSWORD").unwrap_or_default());
        }
        server.tls.insecure = variables.switch("INSECURE_SKIP_TLS_VERIFY", false)?;
        server.tls.min = match variables.text("TLS_MINIMUM_VERSION").as_deref() {
            Some("1.2") => TlsVersion::Tls12,
            _ => TlsVersion::Tls13,
        };
        server.tls.certificates =
            variables.certificate("CLIENT_CERTIFICATE", "CLIENT_CERTIFICATE_KEY")?;
        let mut headers = variables.pairs("HTTP_HEADERS", ':')?;
        if let Some(token) = variables.text("BEARER_TOKEN") {
            headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        let trend = if variables.switch("TREND_AS_NATIVE_HISTOGRAM", false)? {
            Trend::NativeHistogram
        } else {
            let list = variables.text("TREND_STATS").unwrap_or_else(|| TREND_STATS.to_owned());
            Trend::Stats(stats(&list, &variables)?)
        };
        Ok(Self {
            server,
            target: url.target.to_string(),
            headers,
            interval: variables.duration("PUSH_INTERVAL", INTERVAL)?,
            trend,
            marks_stale: variables.switch("STALE_MARKERS", false)?,
        })
    }

    pub(super) fn describe(&self) -> String {
        format!("Prometheus remote write ({}{})", self.server.address, self.target)
    }
}

/// Parses statistics; the suffix of `p(99.9)` is `p999`.
fn stats(list: &str, variables: &Variables<'_>) -> Result<Vec<(String, Stat)>, OptionsError> {
    let names = list.split(',').map(str::trim);
    let stats = names.map(|name| match TrendStat::parse(name) {
        _ if name == "sum" => Ok((name.to_owned(), Stat::Sum)),
        Some(stat) => Ok((name.replace(['(', ')', '.'], ""), Stat::Other(stat))),
        None => {
            let problem = format!("`{name}` is no statistic such as p(99)");
            Err(variables.wrong("TREND_STATS", problem))
        }
    });
    stats.collect()
}

#[derive(Debug)]
struct TrendValues {
    /// Converts times to seconds.
    factor: f64,
    distribution: Storage,
}

#[derive(Debug)]
enum Storage {
    Stats(Box<Histogram>),
    Native(Box<NativeHistogram>),
}

impl Distribution for TrendValues {
    fn record(&mut self, value: f64) {
        let value = value * self.factor;
        match &mut self.distribution {
            Storage::Stats(histogram) => histogram.record(value),
            Storage::Native(histogram) => histogram.record(value),
        }
    }
}

pub(super) struct RemoteWrite {
    settings: PrometheusSettings,
    table: Table<TrendValues>,
}

impl RemoteWrite {
    pub(super) fn new(settings: PrometheusSettings) -> Self {
        let native = settings.trend == Trend::NativeHistogram;
        let table = Table::new(move |contains| TrendValues {
            factor: if contains == Contains::Time { 1e-3 } else { 1.0 },
            distribution: if native {
                Storage::Native(Box::default())
            } else {
                Storage::Stats(Box::default())
            },
        });
        Self { settings, table }
    }

    pub(super) fn add(&mut self, batch: &Batch, registry: &Registry) {
        self.table.add(batch, registry);
    }

    /// The series changed since the last call in the wire format; `None` without any.
    pub(super) fn message(&mut self, registry: &Registry) -> Option<Vec<u8>> {
        let mut request = WriteRequest::default();
        let trend = &self.settings.trend;
        self.table.take_fresh(|metric, tags, series| {
            write_series(&mut request.series, registry.get(metric), tags, series, trend);
        });
        (!request.series.is_empty()).then(|| request.encode_to_vec())
    }

    /// The message with the end of all series, if enabled.
    pub(super) fn last_message(&self, registry: &Registry, now: i64) -> Option<Vec<u8>> {
        if !self.settings.marks_stale {
            return None;
        }
        let mut request = WriteRequest::default();
        for (metric, tags, series) in self.table.all() {
            let trend = &self.settings.trend;
            write_series(&mut request.series, registry.get(metric), tags, series, trend);
        }
        for series in &mut request.series {
            series.histograms.clear();
            series.samples = vec![Sample { value: f64::from_bits(STALE), timestamp: now }];
        }
        (!request.series.is_empty()).then(|| request.encode_to_vec())
    }

    pub(super) fn push(&self, message: &[u8]) -> io::Result<()> {
        let body = snap::raw::Encoder::new().compress_vec(message).map_err(io::Error::other)?;
        let fixed = [
            ("Content-Encoding", "snappy"),
            ("Content-Type", "application/x-protobuf"),
            ("X-Prometheus-Remote-Write-Version", "0.1.0"),
        ];
        let given = self.settings.headers.iter().map(|(name, value)| (&**name, &**value));
        let headers: Vec<_> = fixed.into_iter().chain(given).collect();
        self.settings.server.post(&self.settings.target, &headers, &body)
    }

    pub(super) fn take_left_out(&mut self) -> Option<String> {
        self.table.take_left_out()
    }
}

fn write_series(
    all: &mut Vec<TimeSeries>,
    metric: &Metric,
    tags: &Tags,
    series: &Series<TrendValues>,
    trend: &Trend,
) {
    let sample = |suffix: &str, value: f64| TimeSeries {
        labels: labels(metric, suffix, tags),
        samples: vec![Sample { value, timestamp: series.time }],
        histograms: Vec::new(),
    };
    match &series.value {
        Value::Counter(sum) => all.push(sample("_total", *sum)),
        Value::Gauge(value) => all.push(sample("", *value)),
        Value::Rate { trues, total } => {
            all.push(sample("_rate", *trues as f64 / (*total).max(1) as f64));
        }
        Value::Trend(TrendValues { distribution: Storage::Stats(histogram), .. }) => {
            let Trend::Stats(stats) = trend else { return };
            all.extend(stats.iter().map(|(name, stat)| {
                let value = match stat {
                    Stat::Sum => histogram.sum(),
                    Stat::Other(stat) => stat.value_in(histogram),
                };
                sample(&format!("_{name}"), value)
            }));
        }
        Value::Trend(TrendValues { distribution: Storage::Native(histogram), .. }) => {
            let unit = match metric.contains {
                Contains::Time => "_seconds",
                Contains::Data => "_bytes",
                Contains::Default => "",
            };
            let labels = labels(metric, unit, tags);
            let histograms = vec![WireHistogram::from_native(histogram, series.time)];
            all.push(TimeSeries { labels, samples: Vec::new(), histograms });
        }
    }
}

/// Labels sorted by name, as the protocol requires.
fn labels(metric: &Metric, suffix: &str, tags: &Tags) -> Vec<Label> {
    let name = ("__name__".to_owned(), format!("k6_{}{suffix}", metric.name));
    let mut labels: Vec<Label> =
        given(tags).chain([name]).map(|(name, value)| Label { name, value }).collect();
    labels.sort_by(|one, other| one.name.cmp(&other.name));
    labels
}

impl WireHistogram {
    fn from_native(histogram: &NativeHistogram, timestamp: i64) -> Self {
        let spans = |buckets: &Buckets| {
            let spans = buckets.spans.iter();
            spans.map(|(offset, length)| BucketSpan { offset: *offset, length: *length }).collect()
        };
        let (positive, negative) = (histogram.positive(), histogram.negative());
        Self {
            count: histogram.count,
            sum: histogram.sum,
            schema: SCHEMA,
            zero_threshold: ZERO_THRESHOLD,
            zeros: histogram.zeros,
            negative_spans: spans(&negative),
            negative_deltas: negative.deltas,
            positive_spans: spans(&positive),
            positive_deltas: positive.deltas,
            timestamp,
        }
    }
}

/// The messages used of Prometheus' `remote.proto` and `types.proto`.
#[derive(Clone, PartialEq, prost::Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    series: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    histograms: Vec<WireHistogram>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    /// Milliseconds since 1970.
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireHistogram {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(double, tag = "3")]
    sum: f64,
    #[prost(sint32, tag = "4")]
    schema: i32,
    #[prost(double, tag = "5")]
    zero_threshold: f64,
    #[prost(uint64, tag = "6")]
    zeros: u64,
    #[prost(message, repeated, tag = "8")]
    negative_spans: Vec<BucketSpan>,
    #[prost(sint64, repeated, tag = "9")]
    negative_deltas: Vec<i64>,
    #[prost(message, repeated, tag = "11")]
    positive_spans: Vec<BucketSpan>,
    #[prost(sint64, repeated, tag = "12")]
    positive_deltas: Vec<i64>,
    #[prost(int64, tag = "15")]
    timestamp: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct BucketSpan {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Builtin;

    fn settings(variables: &[(&str, &str)]) -> Result<PrometheusSettings, OptionsError> {
        let variable = |name: &str| {
            let name = name.strip_prefix("K6_PROMETHEUS_RW_")?;
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        PrometheusSettings::parse("", variable)
    }

    /// The sent series, one line each.
    fn sent(variables: &[(&str, &str)]) -> Vec<String> {
        let registry = Registry::new();
        let mut output = RemoteWrite::new(settings(variables).unwrap());
        let tags = [("Z", "1"), ("empty", ""), ("scenario", "default")];
        for value in [100.0, 300.0] {
            let values = [
                (Builtin::HttpReqs, 1.0),
                (Builtin::HttpReqFailed, value - 100.0),
                (Builtin::HttpReqDuration, value),
            ];
            let time = Duration::from_micros(1_500_900);
            let batch = Batch::new(time, &tags, &[("vu", "1")], &values);
            output.add(&batch, &registry);
        }
        let message = output.message(&registry).unwrap();
        assert_eq!(output.message(&registry), None);
        let mut messages = vec![message];
        messages.extend(output.last_message(&registry, 9));
        let series = messages.iter().flat_map(|message| {
            WriteRequest::decode(&**message).unwrap().series.into_iter().map(|series| {
                let labels = series.labels.iter().map(|one| format!("{}={}", one.name, one.value));
                let samples = series
                    .samples
                    .iter()
                    .map(|sample| format!("{}@{}", sample.value, sample.timestamp))
                    .chain(series.histograms.iter().map(|histogram| format!("{histogram:?}")));
                labels.chain(samples).collect::<Vec<_>>().join(" ")
            })
        });
        series.collect()
    }

    #[test]
    fn counters_rates_and_statistics_are_series_of_their_own() {
        let labels = |name: &str| format!("Z=1 __name__=k6_{name} scenario=default");
        assert_eq!(
            sent(&[("TREND_STATS", "p(99.9),sum,max")]),
            [
                format!("{} 2@1500", labels("http_reqs_total")),
                format!("{} 0.5@1500", labels("http_req_failed_rate")),
                format!("{} 0.2998@1500", labels("http_req_duration_p999")),
                format!("{} 0.4@1500", labels("http_req_duration_sum")),
                format!("{} 0.3@1500", labels("http_req_duration_max")),
            ]
        );
    }

    #[test]
    fn trends_may_be_histograms_and_series_may_be_ended() {
        let sent = sent(&[("TREND_AS_NATIVE_HISTOGRAM", "true"), ("STALE_MARKERS", "true")]);
        let histogram = sent.iter().find(|line| line.contains("_duration_seconds")).unwrap();
        for part in ["count: 2, sum: 0.4, schema: 3", "positive_deltas: [1, 0]"] {
            assert!(histogram.contains(part), "{histogram}");
        }
        let ended: Vec<_> = sent.iter().filter(|line| line.ends_with(" NaN@9")).collect();
        assert_eq!((sent.len(), ended.len()), (6, 3), "{sent:?}");
    }

    #[test]
    fn variables_select_server_and_form() {
        let given = settings(&[("SERVER_URL", "https://u:p@h/write"), ("PUSH_INTERVAL", "2s")]);
        let given = given.unwrap();
        assert_eq!(given.describe(), "Prometheus remote write (https://h/write)");
        assert_eq!(given.interval, Duration::from_secs(2));
        for (name, value, expected) in [
            ("TREND_STATS", "p99", "`p99` is no statistic"),
            ("PUSH_INTERVAL", "x", "is not a duration"),
            ("SIGV4_REGION", "eu", "not supported yet"),
            ("STALE_MARKERS", "maybe", "true or false"),
            ("SERVER_URL", "ftp://h", "ftp"),
            ("HTTP_HEADERS", "a", "is not NAME:VALUE"),
            ("CLIENT_CERTIFICATE", "/nowhere", "CLIENT_CERTIFICATE_KEY"),
        ] {
            let error = settings(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(name), "{error}");
        }
    }
}
