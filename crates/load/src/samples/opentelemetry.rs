//! OpenTelemetry's OTLP (k6's `internal/output/opentelemetry`): all metrics so far, every ten seconds, by gRPC or as
//! protobuf over HTTP.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use prost::Message as _;

use super::Batch;
use super::otlp::{
    AnyValue, Data, Export, Gauge, Histogram, HistogramPoint, KeyValue, Number, NumberPoint,
    Resource, ResourceMetrics, Scope, ScopeMetrics, Sum, WireMetric,
};
use super::post::Server;
use super::series::{Distribution, Table, Tags, Value, given};
use super::variables::Variables;
use crate::http::Url;
use crate::metrics::{Contains, Metric, MetricId, Registry};
use crate::options::OptionsError;

const INTERVAL: Duration = Duration::from_secs(10);

const METHOD: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Upper bounds of histogram buckets; the default of OpenTelemetry's SDKs.
const BOUNDS: [f64; 15] = [
    0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0,
    10_000.0,
];

#[derive(Debug, Clone, PartialEq)]
pub(super) struct OpenTelemetrySettings {
    server: Server,
    /// `None` for gRPC.
    path: Option<String>,
    headers: Vec<(String, String)>,
    service: [String; 2],
    prefix: String,
    pub(super) interval: Duration,
    /// Export a rate as one counter with a tag, not as two.
    one_counter_for_rate: bool,
}

impl OpenTelemetrySettings {
    pub(super) fn parse(variable: impl Fn(&str) -> Option<String>) -> Result<Self, OptionsError> {
        let variables = Variables::new("K6_OTEL_", &variable);
        variables.refuse("TLS_CERTIFICATE")?;
        // Validated, but without effect: values are taken as they arrive.
        variables.duration("FLUSH_INTERVAL", INTERVAL)?;
        let protocol =
            variables.text("EXPORTER_PROTOCOL").or_else(|| variables.text("EXPORTER_TYPE"));
        let over_http = match protocol.as_deref() {
            None | Some("grpc") => false,
            Some("http/protobuf" | "http") => true,
            Some(other) => {
                let problem = format!("`{other}` is neither grpc nor http/protobuf");
                return Err(variables.wrong("EXPORTER_PROTOCOL", problem));
            }
        };
        let (endpoint, insecure, default) = match over_http {
            true => ("HTTP_EXPORTER_ENDPOINT", "HTTP_EXPORTER_INSECURE", "localhost:4318"),
            false => ("GRPC_EXPORTER_ENDPOINT", "GRPC_EXPORTER_INSECURE", "localhost:4317"),
        };
        let host = variables.text(endpoint).unwrap_or_else(|| default.to_owned());
        let scheme = if variables.switch(insecure, false)? { "http" } else { "https" };
        let url = Url::parse(&format!("{scheme}://{host}")).ok().filter(|_| !host.contains('/'));
        let problem = || variables.wrong(endpoint, format!("`{host}` is not a host and a port"));
        let mut server = Server::at(&url.ok_or_else(problem)?);
        server.tls.insecure = variables.switch("TLS_INSECURE_SKIP_VERIFY", false)?;
        server.tls.certificates =
            variables.certificate("TLS_CLIENT_CERTIFICATE", "TLS_CLIENT_KEY")?;
        let path = variables.text("HTTP_EXPORTER_URL_PATH");
        let name = variables.text("SERVICE_NAME").or_else(|| variable("OTEL_SERVICE_NAME"));
        Ok(Self {
            server,
            path: over_http.then(|| path.unwrap_or_else(|| "/v1/metrics".to_owned())),
            headers: variables.pairs("HEADERS", '=')?,
            service: [
                name.filter(|name| !name.is_empty()).unwrap_or_else(|| "k6".to_owned()),
                variables
                    .text("SERVICE_VERSION")
                    .unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned()),
            ],
            prefix: variables.text("METRIC_PREFIX").unwrap_or_default(),
            interval: variables.duration("EXPORT_INTERVAL", INTERVAL)?,
            one_counter_for_rate: variables.switch("SINGLE_COUNTER_FOR_RATE", true)?,
        })
    }

    pub(super) fn describe(&self) -> String {
        let address = &self.server.address;
        match &self.path {
            Some(path) => format!("opentelemetry (http/protobuf, {address}{path})"),
            None => format!("opentelemetry (grpc, {address})"),
        }
    }
}

#[derive(Debug, Clone)]
struct Buckets {
    /// The last is beyond all bounds.
    counts: [u64; BOUNDS.len() + 1],
    sum: f64,
    min: f64,
    max: f64,
}

impl Distribution for Buckets {
    fn record(&mut self, value: f64) {
        self.counts[BOUNDS.partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
}

pub(super) struct Exporter {
    settings: OpenTelemetrySettings,
    table: Table<Buckets>,
    /// Arrival of the first value, in nanoseconds since 1970.
    start: Option<u64>,
}

impl Exporter {
    pub(super) fn new(settings: OpenTelemetrySettings) -> Self {
        let empty = Buckets {
            counts: [0; BOUNDS.len() + 1],
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        };
        Self { settings, table: Table::new(move |_| empty.clone()), start: None }
    }

    /// `now` is in nanoseconds since 1970.
    pub(super) fn add(&mut self, batch: &Batch, registry: &Registry, now: u64) {
        self.start.get_or_insert(now);
        self.table.add(batch, registry);
    }

    /// All metrics in the wire format; `None` without values.
    pub(super) fn message(&self, registry: &Registry, now: u64) -> Option<Vec<u8>> {
        let settings = &self.settings;
        let mut metrics = WireMetrics { settings, start: self.start?, now, all: BTreeMap::new() };
        for (id, tags, series) in self.table.all() {
            metrics.add_series((id, registry.get(id)), attributes(tags), &series.value);
        }
        let [name, version] = &settings.service;
        let resource = vec![attribute("service.name", name), attribute("service.version", version)];
        let scope = ScopeMetrics {
            scope: Some(Scope { name: "k6".to_owned() }),
            metrics: metrics.all.into_values().collect(),
        };
        let all = ResourceMetrics {
            resource: Some(Resource { attributes: resource }),
            scopes: vec![scope],
        };
        Some(Export { resources: vec![all] }.encode_to_vec())
    }

    pub(super) fn push(&self, message: &[u8]) -> io::Result<()> {
        let given = self.settings.headers.iter().map(|(name, value)| (&**name, &**value));
        match &self.settings.path {
            Some(path) => {
                let headers: Vec<_> =
                    [("Content-Type", "application/x-protobuf")].into_iter().chain(given).collect();
                self.settings.server.post(path, &headers, message)
            }
            None => super::grpc::call(
                &self.settings.server,
                METHOD,
                &given.collect::<Vec<_>>(),
                message,
            ),
        }
    }

    pub(super) fn take_left_out(&mut self) -> Option<String> {
        self.table.take_left_out()
    }
}

struct WireMetrics<'s> {
    settings: &'s OpenTelemetrySettings,
    start: u64,
    now: u64,
    /// Some metrics of k6 are two here.
    all: BTreeMap<(MetricId, u8), WireMetric>,
}

impl WireMetrics<'_> {
    fn add_series(
        &mut self,
        metric: (MetricId, &Metric),
        tags: Vec<KeyValue>,
        value: &Value<Buckets>,
    ) {
        match value {
            Value::Counter(sum) => {
                self.add(metric, (0, ""), sum_of(self.number(Number::Real(*sum), tags)));
            }
            Value::Gauge(value) => {
                let points = vec![self.number(Number::Real(*value), tags)];
                self.add(metric, (0, ""), Data::Gauge(Gauge { points }));
            }
            Value::Rate { trues, total } if self.settings.one_counter_for_rate => {
                for (condition, found) in [("nonzero", *trues), ("zero", total - trues)] {
                    if found > 0 {
                        let mut tags = tags.clone();
                        tags.push(attribute("condition", condition));
                        tags.sort_by(|one, other| one.key.cmp(&other.key));
                        self.add(metric, (0, ".total"), sum_of(self.count(found, tags)));
                    }
                }
            }
            Value::Rate { trues, total } => {
                if *trues > 0 {
                    self.add(metric, (0, ".occurred"), sum_of(self.count(*trues, tags.clone())));
                }
                self.add(metric, (1, ".total"), sum_of(self.count(*total, tags)));
            }
            Value::Trend(buckets) => {
                let point = HistogramPoint {
                    start: self.start,
                    time: self.now,
                    count: buckets.counts.iter().sum(),
                    sum: Some(buckets.sum),
                    counts: buckets.counts.to_vec(),
                    bounds: BOUNDS.to_vec(),
                    attributes: tags,
                    min: Some(buckets.min),
                    max: Some(buckets.max),
                };
                let histogram = Histogram { points: vec![point], temporality: CUMULATIVE };
                self.add(metric, (0, ""), Data::Histogram(histogram));
            }
        }
    }

    fn add(&mut self, (id, metric): (MetricId, &Metric), (place, suffix): (u8, &str), data: Data) {
        let name = format!("{}{}{suffix}", self.settings.prefix, metric.name);
        let unit = match metric.contains {
            // In k6 rates have no unit.
            _ if !suffix.is_empty() => "",
            Contains::Time => "ms",
            Contains::Data => "By",
            Contains::Default => "",
        };
        let new = || WireMetric { name, unit: unit.to_owned(), data: None };
        self.all.entry((id, place)).or_insert_with(new).merge(data);
    }

    fn number(&self, value: Number, attributes: Vec<KeyValue>) -> NumberPoint {
        NumberPoint { attributes, start: self.start, time: self.now, value: Some(value) }
    }

    fn count(&self, count: u64, attributes: Vec<KeyValue>) -> NumberPoint {
        self.number(Number::Whole(count as i64), attributes)
    }
}

fn attributes(tags: &Tags) -> Vec<KeyValue> {
    given(tags).map(|(key, value)| attribute(&key, &value)).collect()
}

fn attribute(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { text: Some(value.to_owned()) }) }
}

fn sum_of(point: NumberPoint) -> Data {
    Data::Sum(Sum { points: vec![point], temporality: CUMULATIVE, is_monotonic: true })
}

impl WireMetric {
    fn merge(&mut self, data: Data) {
        match (&mut self.data, data) {
            (None, data) => self.data = Some(data),
            (Some(Data::Gauge(all)), Data::Gauge(more)) => all.points.extend(more.points),
            (Some(Data::Sum(all)), Data::Sum(more)) => all.points.extend(more.points),
            (Some(Data::Histogram(all)), Data::Histogram(more)) => all.points.extend(more.points),
            _ => debug_assert!(false, "two kinds of data for one metric"),
        }
    }
}

/// Since the start, not since the last export.
const CUMULATIVE: i32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Builtin;

    fn settings(variables: &[(&str, &str)]) -> Result<OpenTelemetrySettings, OptionsError> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| name == format!("K6_OTEL_{known}"));
            found.map(|(_, value)| (*value).to_owned())
        };
        OpenTelemetrySettings::parse(variable)
    }

    fn exported(variables: &[(&str, &str)]) -> ResourceMetrics {
        let registry = Registry::new();
        let mut exporter = Exporter::new(settings(variables).unwrap());
        assert_eq!(exporter.message(&registry, 0), None);
        for (value, scenario) in [(5.0, "a"), (5.5, "a"), (20_000.0, "b")] {
            let values = [
                (Builtin::DataSent, value),
                (Builtin::Vus, value),
                (Builtin::HttpReqFailed, value - 5.0),
                (Builtin::HttpReqDuration, value),
            ];
            let batch = Batch::new(Duration::ZERO, &[("scenario", scenario)], &[], &values);
            exporter.add(&batch, &registry, 100);
        }
        let message = exporter.message(&registry, 200).unwrap();
        Export::decode(&*message).unwrap().resources.remove(0)
    }

    fn metric<'e>(exported: &'e ResourceMetrics, name: &str) -> &'e WireMetric {
        let mut metrics = exported.scopes[0].metrics.iter();
        metrics.find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    #[test]
    fn trends_are_histograms_and_the_others_numbers_by_tags() {
        let exported = exported(&[("METRIC_PREFIX", "k6_"), ("SERVICE_NAME", "shop")]);
        let service = &exported.resource.as_ref().unwrap().attributes[0];
        assert_eq!(*service, attribute("service.name", "shop"));
        let trend = metric(&exported, "k6_http_req_duration");
        let Some(Data::Histogram(histogram)) = &trend.data else { panic!("{trend:?}") };
        let first = &histogram.points[0];
        assert_eq!((trend.unit.as_str(), histogram.points.len()), ("ms", 2));
        assert_eq!((first.count, first.sum, first.max), (2, Some(10.5), Some(5.5)));
        assert_eq!((&first.counts[..3], first.start, first.time), (&[0, 1, 1][..], 100, 200));
        assert_eq!(histogram.points[1].counts[15], 1);
        let sent = metric(&exported, "k6_data_sent");
        let Some(Data::Sum(sum)) = &sent.data else { panic!("{sent:?}") };
        assert_eq!((sent.unit.as_str(), sum.points[0].value), ("By", Some(Number::Real(10.5))));
        assert!(matches!(metric(&exported, "k6_vus").data, Some(Data::Gauge(_))));
    }

    #[test]
    fn a_rate_is_one_counter_or_two() {
        let one = exported(&[]);
        let Some(Data::Sum(sum)) = &metric(&one, "http_req_failed.total").data else { panic!() };
        let points: Vec<_> =
            sum.points.iter().map(|point| (point.attributes.len(), point.value)).collect();
        assert_eq!(points, [(2, Some(Number::Whole(1))); 3]);
        let two = exported(&[("SINGLE_COUNTER_FOR_RATE", "false")]);
        let Some(Data::Sum(sum)) = &metric(&two, "http_req_failed.total").data else { panic!() };
        assert_eq!(sum.points[0].value, Some(Number::Whole(2)));
        let Some(Data::Sum(sum)) = &metric(&two, "http_req_failed.occurred").data else { panic!() };
        assert_eq!(sum.points[0].value, Some(Number::Whole(1)));
    }

    #[test]
    fn variables_select_server_and_protocol() {
        let shown = |variables: &[(&str, &str)]| settings(variables).unwrap().describe();
        assert_eq!(shown(&[]), "opentelemetry (grpc, https://localhost:4317)");
        let http = [("EXPORTER_PROTOCOL", "http/protobuf"), ("HTTP_EXPORTER_INSECURE", "true")];
        assert_eq!(shown(&http), "opentelemetry (http/protobuf, http://localhost:4318/v1/metrics)");
        for (name, value, expected) in [
            ("EXPORTER_PROTOCOL", "udp", "`udp` is neither"),
            ("GRPC_EXPORTER_ENDPOINT", "http://h:1", "is not a host and a port"),
            ("TLS_CERTIFICATE", "ca.pem", "not supported yet"),
            ("HEADERS", "a", "is not NAME=VALUE"),
        ] {
            let error = settings(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(name), "{error}");
        }
    }
}
