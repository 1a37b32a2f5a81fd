//! The Prometheus page, with metrics of the store and the cache read at each scrape.

use crate::app::App;
use crate::http::answers::AnswerMetrics;
use crate::http::gate::{Gate, GateMetrics};
use crate::ops::process::Process;
use crate::schedules::ScheduleMetrics;
use crate::store::{ReplicaMetrics, StoreMetrics, StoreSizes};
use axum::Router;
use axum::routing::get;
use http::header;
use madang_cache::MetricsSnapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, EncodeMetric,
};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

pub(crate) fn register(registry: &mut Registry, app: &Arc<App>) {
    registry.register_collector(Box::new(AppCollector { app: Arc::clone(app) }));
}

/// `/metrics`. Metrics of the process have the unprefixed names that dashboards expect.
pub(crate) fn router(registry: Registry) -> Router {
    let mut process = Registry::default();
    process.register_collector(Box::new(Process::new()));
    let registries = Arc::new((registry, process));
    let page = async move || {
        let mut text = String::new();
        // Writing to a string fails only when a collector does; the page is then incomplete.
        let _ = encode(&mut text, &registries.1);
        let own = text.strip_suffix("# EOF\n").map_or(text.len(), str::len);
        text.truncate(own);
        let _ = encode(&mut text, &registries.0);
        let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        ([(header::CONTENT_TYPE, content_type)], text)
    };
    Router::new().route("/metrics", get(page))
}

#[derive(Debug)]
struct AppCollector {
    app: Arc<App>,
}

impl Collector for AppCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (out, app) = (&mut Figures(encoder), &*self.app);
        store_metrics(out, &app.store.metrics())?;
        replica_metrics(out, &app.store.replicas())?;
        store_sizes(out, app.store.sizes())?;
        backup_metrics(out, app.store.last_backup())?;
        app.accounts.encode_metrics(out)?;
        schedule_metrics(out, &app.schedules.store().metrics)?;
        app.articles.encode_metrics(out)?;
        app.markets.encode_metrics(out)?;
        let waiting = app.compute.waiting() as u64;
        out.gauge("compute_queue", "CPU-heavy jobs waiting", waiting)?;
        out.counter("compute_jobs", "CPU-heavy jobs run", app.compute.jobs())?;
        let (used, capacity) = (app.cache.used_bytes(), app.cache.capacity_bytes());
        out.gauge("cache_used_bytes", "Size of all cached bodies in bytes", used)?;
        out.gauge("cache_capacity_bytes", "Cache capacity in bytes", capacity)?;
        let gates = [("reads", &app.reads), ("writes", &app.writes), ("uploads", &app.uploads)];
        gate_metrics(out, gates)?;
        rate_metrics(out, app, gates)?;
        answer_metrics(out, app.answers.metrics())?;
        let is_on = u64::from(app.maintenance.message().is_some());
        out.gauge("maintenance", "Whether maintenance mode refuses writes: 1 or 0", is_on)?;
        let help = "Requests whose X-Forwarded-For was ignored because the peer is not in server.trusted_proxies";
        out.counter("untrusted_forwards", help, app.proxies.ignored())?;
        cache_metrics(out, &app.cache.metrics(), app.cache.remote_is_up())
    }
}

/// The page being written.
pub(crate) struct Figures<'e>(pub(crate) DescriptorEncoder<'e>);

impl Figures<'_> {
    pub(crate) fn counter<N>(&mut self, name: &str, help: &str, value: N) -> fmt::Result
    where
        N: EncodeCounterValue,
    {
        let metric = ConstCounter::new(value);
        metric.encode(self.0.encode_descriptor(name, help, None, metric.metric_type())?)
    }

    #[allow(clippy::cast_precision_loss, reason = "no figure of this program is above 2^53")]
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let metric = ConstGauge::new(value as f64);
        metric.encode(self.0.encode_descriptor(name, help, None, metric.metric_type())?)
    }

    pub(crate) fn counters<N: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (impl EncodeLabelSet, N)>,
    ) -> fmt::Result {
        let kind = ConstCounter::new(0u64).metric_type();
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        values.into_iter().try_for_each(|(labels, value)| {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)
        })
    }

    fn gauges<N: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (impl EncodeLabelSet, N)>,
    ) -> fmt::Result {
        let kind = ConstGauge::new(0i64).metric_type();
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        values.into_iter().try_for_each(|(labels, value)| {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)
        })
    }
}

fn store_metrics(out: &mut Figures<'_>, metrics: &StoreMetrics) -> fmt::Result {
    out.counter("store_commits", "Commits of changes, each synced once", metrics.commits)?;
    let help = "Commits that failed, with all of their writes";
    out.counter("store_commit_failures", help, metrics.failed_commits)?;
    out.counter("store_writes", "Writes that succeeded", metrics.committed_jobs)?;
    let help = "Writes that failed and were rolled back on their own";
    out.counter("store_write_failures", help, metrics.failed_jobs)?;
    let seconds = Duration::from_micros(metrics.commit_micros).as_secs_f64();
    out.counter("store_commit_seconds", "Total time spent in commits", seconds)?;
    out.counter("store_reads", "Read transactions", metrics.reads)?;
    out.gauge("store_read_queue", "Read transactions waiting", metrics.waiting_reads)?;
    out.gauge("store_write_queue", "Writes waiting", metrics.waiting_writes)?;
    let help =
        "Transactions that were run again, because they met another one or lost their connection";
    out.counter("store_retries", help, metrics.retries)?;
    let help = "Whether this node does the housekeeping for all nodes of a database";
    out.gauge("cluster_housekeeper", help, u64::from(metrics.keeps_house))?;
    out.counter("cluster_polls", "Queries for what other nodes have written", metrics.polls)?;
    out.counter("cluster_waits", "Requests that had to wait for such a query", metrics.waits)?;
    let help = "Copies of the write-ahead log into the database";
    out.counter("store_checkpoints", help, metrics.checkpoints)?;
    let help = "Pauses of reads and writes because the log reached database.log_limit";
    out.counter("store_log_cuts", help, metrics.log_cuts)
}

/// Writes nothing without a replica.
fn replica_metrics(out: &mut Figures<'_>, metrics: &[ReplicaMetrics]) -> fmt::Result {
    if metrics.is_empty() {
        return Ok(());
    }
    let label = |one: &ReplicaMetrics| [("replica", one.name.clone())];
    let reads = metrics.iter().map(|one| (label(one), one.reads));
    let help = "Read transactions that a replica has answered; the primary has answered the others";
    out.counters("replica_reads", help, reads)?;
    let used = metrics.iter().map(|one| (label(one), f64::from(u8::from(one.is_used))));
    let help = "Whether reads are sent to a replica: not while it is away, or far behind";
    out.gauges("replica_used", help, used)?;
    let lags = metrics.iter().map(|one| (label(one), one.lag.as_secs_f64()));
    let help = "Time for which a replica has not had something that this node knows of";
    out.gauges("replica_lag_seconds", help, lags)
}

fn store_sizes(out: &mut Figures<'_>, sizes: StoreSizes) -> fmt::Result {
    if let Some(files) = sizes.files {
        out.gauge("store_database_bytes", "Size of the database file", files.database_bytes)?;
        out.gauge("store_log_bytes", "Size of the write-ahead log", files.log_bytes)?;
    }
    let help = "Free space on the disk of the data directory";
    out.gauge("store_disk_free_bytes", help, sizes.disk_free_bytes)
}

fn backup_metrics(out: &mut Figures<'_>, last: Option<SystemTime>) -> fmt::Result {
    let last = last.and_then(|last| last.duration_since(SystemTime::UNIX_EPOCH).ok());
    let help = "When `madang backup` last succeeded on this data directory; 0 = not yet";
    out.gauge("backup_last_success_timestamp_seconds", help, last.map_or(0, |last| last.as_secs()))
}

fn schedule_metrics(out: &mut Figures<'_>, metrics: &ScheduleMetrics) -> fmt::Result {
    out.counter("schedules_created", "Schedules stored", metrics.created.load(Relaxed))?;
    let help = "Schedules refused because of schedules.limit";
    out.counter("schedules_refused", help, metrics.refused.load(Relaxed))?;
    let help = "Schedules deleted by their users";
    out.counter("schedules_deleted", help, metrics.deleted.load(Relaxed))
}

fn answer_metrics(out: &mut Figures<'_>, metrics: AnswerMetrics) -> fmt::Result {
    let help = "Memory of large answers in progress, each buffer counted once";
    out.gauge("answer_bytes", help, metrics.held as u64)?;
    let help = "Large answers refused because the memory (all) or the share of the address (share) was used up";
    let refused = [("all", metrics.refused), ("share", metrics.refused_share)];
    let refused = refused.map(|(reason, value)| ([("reason", reason)], value));
    out.counters("answers_refused", help, refused)
}

fn gate_metrics(out: &mut Figures<'_>, gates: [(&'static str, &Gate); 3]) -> fmt::Result {
    let gates = gates.map(|(gate, metrics)| (gate, metrics.metrics()));
    let gauges = |read: fn(&GateMetrics) -> usize| {
        let number = move |metrics| i64::try_from(read(metrics)).unwrap_or(i64::MAX);
        gates.iter().map(move |(gate, metrics)| ([("gate", *gate)], number(metrics)))
    };
    let help = "Uncached reads, writes and uploads in progress";
    out.gauges("work_in_flight", help, gauges(|gate| gate.in_flight))?;
    let help = "Uncached reads, writes and uploads in the queue";
    out.gauges("work_waiting", help, gauges(|gate| gate.waiting))?;
    let help = "Requests refused because the queue was full (full) or the wait too long (late)";
    let shed = gates.iter().flat_map(|(gate, metrics)| {
        let reasons = [("full", metrics.shed_full), ("late", metrics.shed_late)];
        reasons.map(|(reason, value)| ([("gate", *gate), ("reason", reason)], value))
    });
    out.counters("work_shed", help, shed)?;
    let kind = gates[0].1.waits.metric_type();
    let help = "Time that work waited in the queue";
    let mut family =
        out.0.encode_descriptor("work_queue_time", help, Some(&Unit::Seconds), kind)?;
    for (gate, metrics) in &gates {
        metrics.waits.encode(family.encode_family(&[("gate", *gate)])?)?;
    }
    Ok(())
}

/// Writes nothing without a limit.
fn rate_metrics(
    out: &mut Figures<'_>,
    app: &App,
    gates: [(&'static str, &Gate); 3],
) -> fmt::Result {
    let Some(metrics) = app.limits.metrics() else { return Ok(()) };
    let help = "Requests refused because their user or address exceeded limits.*";
    let refused =
        gates.into_iter().filter_map(|(gate, one)| Some(([("gate", gate)], one.over_rate()?)));
    out.counters("rate_limited", help, refused)?;
    out.gauge("rate_limit_buckets", "Users and addresses counted", metrics.buckets)?;
    let help = "Users and addresses forgotten before their count had expired, to make room";
    out.counter("rate_limit_evictions", help, metrics.evictions)?;
    let help = "Requests counted by this node alone because the server of guard.url did not answer";
    out.counter("rate_limit_alone", help, metrics.alone)
}

/// Reads one figure of a part of the cache.
type Read = fn(&MetricsSnapshot) -> u64;

fn cache_metrics(
    out: &mut Figures<'_>,
    parts: &[(Box<str>, MetricsSnapshot)],
    is_up: Option<bool>,
) -> fmt::Result {
    let remote: &[(&str, &str, Read)] = &[
        ("cache_hits", "", |m| m.remote_hits),
        ("cache_misses", "", |m| m.remote_misses),
        ("cache_outdated", "Bodies found that may be older than a known write", |m| {
            m.remote_outdated
        }),
        ("cache_failed", "Lookups that the server of cache.url did not answer", |m| {
            m.remote_failed
        }),
        ("cache_skipped", "Lookups left out while that server is away", |m| m.remote_skipped),
        ("cache_stored", "Bodies that it took", |m| m.remote_stored),
    ];
    let remote = if is_up.is_some() { remote } else { &[] };
    let local: [(&str, &str, Read); 13] = [
        ("cache_hits", "Lookups answered by a fresh entry", |m| m.hits),
        ("cache_negative_hits", "Lookups answered by a cached absence", |m| m.negative_hits),
        ("cache_misses", "Lookups that started a load", |m| m.misses),
        ("cache_coalesced", "Lookups that joined a load in flight", |m| m.coalesced),
        (
            "cache_stale_served",
            "Lookups answered by an expired entry because the load failed or was slow",
            |m| m.stale_served,
        ),
        ("cache_loads", "Loads started", |m| m.loads),
        ("cache_load_errors", "Loads that failed", |m| m.load_errors),
        ("cache_refreshes", "Loads started before an entry expired", |m| m.refreshes),
        ("cache_vetoed_fills", "Loads not cached because of a write", |m| m.vetoed_fills),
        (
            "cache_refused_admissions",
            "Loads not cached: first use of a key that clients can invent, or by rule, size or lack of room",
            |m| m.refused_by_predicate + m.refused_by_size + m.refused_by_capacity,
        ),
        ("cache_evictions", "Entries evicted to make room", |m| m.evictions),
        ("cache_overloaded", "Lookups refused because of too many loads", |m| m.overloaded),
        ("cache_backing_off", "Lookups refused during the backoff after a failed load", |m| {
            m.backing_off
        }),
    ];
    let of = |read: Read, tier: &'static str| {
        let labels = move |cache: &str| [("cache", cache.to_owned()), ("tier", tier.to_owned())];
        parts.iter().map(move |(cache, metrics)| (labels(cache), read(metrics)))
    };
    for (name, help, read) in local {
        let remote = remote.iter().filter(|one| one.0 == name);
        let values = of(read, "local").chain(remote.flat_map(|one| of(one.2, "remote")));
        out.counters(name, help, values)?;
    }
    for (name, help, read) in
        remote.iter().filter(|one| !local.iter().any(|other| other.0 == one.0))
    {
        out.counters(name, help, of(*read, "remote"))?;
    }
    if let Some(is_up) = is_up {
        let gauge = ConstGauge::new(i64::from(is_up));
        let help = "1 while the server of cache.url answers";
        let up = out.0.encode_descriptor("cache_remote_up", help, None, gauge.metric_type())?;
        gauge.encode(up)?;
    }
    let gauges =
        |read| of(read, "local").map(|(labels, n)| (labels, i64::try_from(n).unwrap_or(i64::MAX)));
    out.gauges("cache_entries", "Number of entries", gauges(|m| m.entries))?;
    out.gauges("cache_entry_bytes", "Size of the entries in bytes", gauges(|m| m.bytes))
}
