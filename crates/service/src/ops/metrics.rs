//! Metrics: Prometheus names, base units, route templates as labels, never ids.
//!
//! A request touches only existing counters: one array lookup for its method and status, without hashing or
//! allocating a label.

use super::latency::Latencies;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Bounds of the latency histogram in seconds, around the targets of a small service.
const BUCKETS: [f64; 8] = [0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 5.0];

const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"];

fn method_index(method: &Method) -> usize {
    METHODS.iter().position(|name| *name == method.as_str()).unwrap_or(METHODS.len() - 1)
}

/// A method as a label; methods invented by clients are `other`.
pub(crate) fn method_label(method: &Method) -> &'static str {
    METHODS[method_index(method)]
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: &'static str,
}

type Label = [(&'static str, &'static str); 1];

/// Metrics of all routes.
#[derive(Debug)]
struct AllRoutes {
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
    /// Latencies of the shown routes.
    latencies: Latencies,
    /// Counters of the shown routes by method, route and status, with the status.
    answers: Mutex<Vec<(u16, Counter)>>,
}

/// Counters of the listener, its connections and the edge.
#[derive(Debug)]
pub struct ServerMetrics {
    all: Arc<AllRoutes>,
    pub(crate) in_flight: Gauge,
    pub(crate) client_left: Counter,
    pub(crate) panics: Counter,
    pub(crate) unreadable: Counter,
    pub(crate) connections: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) refused: Counter,
    expired: Family<Label, Counter>,
    bodies: Family<Label, Gauge>,
    pub(crate) accept_errors: Counter,
    /// One entry per route template, added at the start.
    routes: Mutex<Vec<&'static RouteMetrics>>,
    /// Requests without a matching route.
    pub(crate) unmatched: &'static RouteMetrics,
}

const LEFT: &str = "Clients that disconnected before their answer";
const UNREADABLE: &str =
    "Request heads that are not valid HTTP/1.1 or too large, answered without a problem body";
const REFUSED: &str = "Client connections answered 503 because of a limit on connections";
const EXPIRED: &str = "Client connections closed by the server, by reason";

pub(super) fn made<M: Metric + Clone + Default>(
    registry: &mut Registry,
    name: &str,
    help: &str,
) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

impl ServerMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let http = registry.sub_registry_with_prefix("http_server");
        let help = "Answers sent, by method, route template and status";
        let requests = made(http, "requests", help);
        let durations = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> _);
        let help = "Time from a complete request head to the head of the answer";
        http.register_with_unit("request_duration", help, Unit::Seconds, durations.clone());
        let (latencies, answers) = Default::default();
        let all = Arc::new(AllRoutes { requests, durations, latencies, answers });
        let bodies = Family::default();
        let help = "Memory taken by request bodies that arrive or are worked with, by room";
        http.register_with_unit("request_bodies", help, Unit::Bytes, bodies.clone());
        Self {
            in_flight: made(http, "requests_in_flight", "Requests being answered"),
            client_left: made(http, "client_disconnects", LEFT),
            panics: made(http, "handler_panics", "Handlers that panicked, answered 500"),
            unreadable: made(http, "unreadable_requests", UNREADABLE),
            connections: made(http, "connections", "Open client connections"),
            accepted: made(http, "connections_accepted", "Client connections accepted"),
            refused: made(http, "connections_refused", REFUSED),
            expired: made(http, "connections_expired", EXPIRED),
            bodies,
            accept_errors: made(http, "accept_errors", "Errors while accepting connections"),
            routes: Mutex::default(),
            unmatched: RouteMetrics::leak("unmatched", &all, true),
            all,
        }
    }

    /// Prepares the counters of a route template. Only `shown` routes are part of [`answers`](Self::answers) and
    /// [`latencies`](Self::latencies).
    pub(crate) fn add_route(&self, template: &str, shown: bool) {
        self.routes.lock().push(RouteMetrics::leak(template, &self.all, shown));
    }

    pub(crate) fn latencies(&self) -> &Latencies {
        &self.all.latencies
    }

    /// Responses since the start by the first digit of their status, 1 to 5.
    pub(crate) fn answers(&self) -> [u64; 5] {
        let mut sums = [0; 5];
        for (status, counter) in self.all.answers.lock().iter() {
            sums[usize::from(status / 100).clamp(1, 5) - 1] += counter.get();
        }
        sums
    }

    pub(crate) fn routes(&self) -> Arc<[&'static RouteMetrics]> {
        self.routes.lock().as_slice().into()
    }

    /// Memory of the bodies in a room, in bytes.
    pub(crate) fn body_room(&self, room: &'static str) -> Gauge {
        self.bodies.get_or_create_owned(&[("room", room)])
    }

    pub(crate) fn connection_expired(&self, reason: &'static str) {
        self.expired.get_or_create(&[("reason", reason)]).inc();
    }
}

/// Counters of one route template.
#[derive(Debug)]
pub struct RouteMetrics {
    pub(crate) template: &'static str,
    all: Arc<AllRoutes>,
    shown: bool,
    slots: [MethodSlots; METHODS.len()],
}

/// Filled at the first request of its kind, so that `/metrics` lists only what has happened.
#[derive(Debug)]
struct MethodSlots {
    duration: OnceLock<Histogram>,
    /// By status minus 100; the last one is shared by statuses above 599.
    by_status: Box<[OnceLock<Counter>]>,
}

impl Default for MethodSlots {
    fn default() -> Self {
        Self { duration: OnceLock::new(), by_status: (0..500).map(|_| OnceLock::new()).collect() }
    }
}

impl RouteMetrics {
    /// Leaked: there is one per route of the program.
    fn leak(template: &str, all: &Arc<AllRoutes>, shown: bool) -> &'static RouteMetrics {
        Box::leak(Box::new(RouteMetrics {
            template: Box::leak(template.to_owned().into_boxed_str()),
            all: Arc::clone(all),
            shown,
            slots: std::array::from_fn(|_| MethodSlots::default()),
        }))
    }

    /// Counts one response.
    pub(crate) fn record(&self, method: &Method, status: StatusCode, took: Duration) {
        let index = method_index(method);
        let (slots, method) = (&self.slots[index], METHODS[index]);
        let code = status.as_u16();
        let slot = usize::from(code.saturating_sub(100)).min(slots.by_status.len() - 1);
        let (all, route) = (&*self.all, self.template);
        let counter = slots.by_status[slot].get_or_init(|| {
            let labels = RequestLabels { method, route, status: code };
            let counter = all.requests.get_or_create_owned(&labels);
            if self.shown {
                all.answers.lock().push((code, counter.clone()));
            }
            counter
        });
        counter.inc();
        let duration = || all.durations.get_or_create_owned(&RouteLabels { method, route });
        slots.duration.get_or_init(duration).observe(took.as_secs_f64());
        if self.shown {
            all.latencies.observe(took);
        }
    }
}
