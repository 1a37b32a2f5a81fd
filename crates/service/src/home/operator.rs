//! Figures of the operator's view: ten minutes of the metrics, and the last errors.
//!
//! The sampler's thread reads the counters of `/metrics` every two seconds, with or without viewers. The view needs
//! no Prometheus and answers "what is wrong just now?"; `/metrics` is for history and alerts.

use super::figures::{Counts, asked_after, hit_ratio, ratio, rounded};
use super::sampler::INTERVAL;
use crate::accounts::bearer;
use crate::app::App;
use crate::config::{OperatorToken, Rate};
use crate::http::limits::ClassLimit;
use crate::http::{Gate, Problem, not_stored, rfc3339};
use crate::ops::last_errors::{LastError, LastErrors};
use crate::ops::metrics::ServerMetrics;
use crate::store::ReplicaMetrics;
use axum::response::Response;
use http::HeaderMap;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Ticks of the sampler per sample.
const EVERY: u32 = 2;
/// Number of samples kept: ten minutes.
const KEPT: usize = 300;
/// Samples per percentile: ten seconds.
const WINDOW: usize = 5;
/// Limit on requests of one address for these figures, with any token: an open page makes 30 a minute.
const ASKED: Rate = Rate { count: 300, window: Duration::from_secs(60) };

/// Counters since the start, shown per second.
const RATES: [&str; 10] = [
    "answers2xx", "answers3xx", "answers4xx", "answers5xx", "logInsRefused", "logInsChallenged",
    "rateLimited", "shed", "writes", "writesFailed",
];
/// Levels at the moment of the sample.
const LEVELS: [&str; 8] = [
    "cacheBytes", "logInsWaiting", "requestsWaiting", "storeWaiting", "logBytes", "diskFreeBytes",
    "likesPending", "likesLagSeconds",
];
/// Figures of the last ten seconds.
const WINDOWS: [&str; 3] = ["p50Milliseconds", "p99Milliseconds", "cacheHitRatio"];

/// All counters and levels at one moment.
#[derive(Clone, Debug)]
struct MetricsSnapshot {
    counts: Counts,
    rates: [u64; RATES.len()],
    levels: [Option<f64>; LEVELS.len()],
    replicas: Vec<ReplicaMetrics>,
}

impl MetricsSnapshot {
    #[allow(clippy::cast_precision_loss, reason = "sizes and counts are far below 2^53")]
    fn take(app: &App, metrics: &ServerMetrics) -> MetricsSnapshot {
        let guard = app.accounts.guard().metrics();
        let hashes = app.accounts.hasher().metrics();
        let gates = [&app.reads, &app.writes, &app.uploads];
        let limited = gates.iter().filter_map(|gate| gate.over_rate()).sum();
        let gates = gates.map(Gate::metrics);
        let answers = app.answers.metrics();
        let (store, sizes) = (app.store.metrics(), app.store.sizes());
        let likes = app.articles.like_metrics();
        let refused = guard.refused_pair
            + guard.refused_account
            + guard.refused_address
            + guard.refused_password
            + guard.refused_sign_up
            + guard.refused_blocked
            + guard.refused_in_flight;
        let challenged =
            guard.suspicious_address + guard.suspicious_account + guard.suspicious_password;
        let shed = gates.iter().map(|gate| gate.shed_full + gate.shed_late).sum::<u64>()
            + answers.refused
            + answers.refused_share
            + hashes.refused
            + hashes.expired;
        let failed_writes = store.failed_jobs + store.failed_commits;
        let [_, s2xx, s3xx, s4xx, s5xx] = metrics.answers();
        let level = |value: u64| Some(value as f64);
        MetricsSnapshot {
            counts: Counts::read(metrics.latencies(), &app.cache),
            rates: [
                s2xx, s3xx, s4xx, s5xx, refused, challenged, limited, shed, store.committed_jobs,
                failed_writes,
            ],
            levels: [
                level(app.cache.used_bytes()),
                level(guard.waiters + hashes.queued as u64),
                level(gates.iter().map(|gate| gate.waiting as u64).sum()),
                level(store.waiting_reads + store.waiting_writes),
                sizes.files.and_then(|files| level(files.log_bytes)),
                level(sizes.disk_free_bytes),
                level(likes.pending),
                Some(likes.lag.as_secs_f64()),
            ],
            replicas: app.store.replicas(),
        }
    }
}

/// Values of a moment in the order of the names, then the lag of each replica.
type Sample = Vec<Option<f64>>;

fn sample(past: &VecDeque<MetricsSnapshot>) -> Option<Sample> {
    let (first, now) = (past.front()?, past.back()?);
    let before = past.iter().rev().nth(1)?;
    let seconds = now.counts.at.duration_since(before.counts.at).as_secs_f64();
    let rates = now.rates.iter().zip(&before.rates);
    let rates = rates.map(|(now, before)| Some(ratio(now.saturating_sub(*before), seconds)));
    let window = now.counts.answers.since(&first.counts.answers);
    let milliseconds = |share| window.percentile(share).map(|seconds| seconds * 1e3);
    let windows = [milliseconds(0.5), milliseconds(0.99), hit_ratio(&first.counts, &now.counts)];
    let lags = now.replicas.iter().map(|replica| Some(replica.lag.as_secs_f64()));
    let all = rates.chain(now.levels).chain(windows).chain(lags);
    Some(all.map(|value| value.map(|value| rounded(value, 3))).collect())
}

/// The samples of the last ten minutes.
#[derive(Debug, Default)]
struct Kept {
    /// Number of the last sample; the first is 1.
    number: u64,
    samples: VecDeque<Sample>,
    /// As of the last sample.
    replicas: Vec<ReplicaMetrics>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replica<'a> {
    name: &'a str,
    /// True if reads are sent there.
    is_used: bool,
    /// Reads since the start.
    reads: u64,
    lag_seconds: Vec<Option<f64>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures<'a> {
    version: &'static str,
    /// RFC 3339; after a restart all samples are new.
    started_at: &'a str,
    interval_seconds: f64,
    /// Number of the last sample.
    number: u64,
    cache_capacity_bytes: u64,
    /// Values by name, oldest first.
    series: BTreeMap<&'static str, Vec<Option<f64>>>,
    replicas: Vec<Replica<'a>>,
    /// Latest first.
    errors: Vec<LastError>,
}

#[derive(Debug)]
pub(super) struct View {
    token: OperatorToken,
    limit: Option<Arc<ClassLimit>>,
    started_at: String,
    cache_capacity_bytes: u64,
    kept: Mutex<Kept>,
    errors: Arc<LastErrors>,
}

impl View {
    pub(super) fn new(token: OperatorToken, app: &App) -> View {
        let key = app.accounts.derived_key("madang operator's view 1");
        View {
            token,
            limit: ClassLimit::on_addresses("operator", ASKED, key),
            started_at: rfc3339::now_utc(),
            cache_capacity_bytes: app.cache.capacity_bytes(),
            kept: Mutex::default(),
            errors: Arc::default(),
        }
    }

    pub(super) fn errors(&self) -> Arc<LastErrors> {
        Arc::clone(&self.errors)
    }

    /// The response to `?after=NUMBER` with the operator's token.
    pub(super) async fn answer(
        &self,
        headers: &HeaderMap,
        query: &str,
    ) -> Result<Response, Problem> {
        // Before the token, so that a fast guesser does not learn of a correct guess.
        if let Some(limit) = &self.limit {
            limit.take().await.map_err(|after| {
                let detail = "this address asks for the operator's view too often";
                Problem::too_many_requests("rate-limited", detail, after)
            })?;
        }
        let given = bearer(headers).flatten().ok_or_else(|| {
            Problem::unauthorized("send the operator's token as Authorization: Bearer …")
        })?;
        if !self.token.is(given) {
            return Err(Problem::invalid_token("this is not the operator's token"));
        }
        Ok(self.after(asked_after(query)?))
    }

    /// Samples after this number; all of them when the number is not known, as after a restart.
    fn after(&self, number: u64) -> Response {
        let kept = self.kept.lock();
        let new = kept.number.checked_sub(number).unwrap_or(kept.number);
        let new = usize::try_from(new).unwrap_or(KEPT).min(kept.samples.len());
        let column = |at: usize| {
            let new = kept.samples.iter().skip(kept.samples.len() - new);
            new.map(|sample| sample.get(at).copied().flatten()).collect()
        };
        let names = RATES.iter().chain(&LEVELS).chain(&WINDOWS);
        let lags = RATES.len() + LEVELS.len() + WINDOWS.len();
        let replicas = kept.replicas.iter().enumerate().map(|(at, replica)| Replica {
            name: &replica.name,
            is_used: replica.is_used,
            reads: replica.reads,
            lag_seconds: column(lags + at),
        });
        not_stored(Figures {
            version: env!("CARGO_PKG_VERSION"),
            started_at: &self.started_at,
            interval_seconds: (INTERVAL * EVERY).as_secs_f64(),
            number: kept.number,
            cache_capacity_bytes: self.cache_capacity_bytes,
            series: names.enumerate().map(|(at, name)| (*name, column(at))).collect(),
            replicas: replicas.collect(),
            errors: self.errors.read(),
        })
    }

    fn keep(&self, sample: Sample, replicas: Vec<ReplicaMetrics>) {
        let mut kept = self.kept.lock();
        kept.number += 1;
        kept.replicas = replicas;
        if kept.samples.len() == KEPT {
            kept.samples.pop_front();
        }
        kept.samples.push_back(sample);
    }
}

/// Takes the samples.
pub(super) struct Watch {
    app: Arc<App>,
    metrics: Arc<ServerMetrics>,
    view: Arc<View>,
    past: VecDeque<MetricsSnapshot>,
    ticks: u32,
}

impl Watch {
    pub(super) fn new(view: Arc<View>, app: Arc<App>, metrics: Arc<ServerMetrics>) -> Watch {
        let past = VecDeque::from([MetricsSnapshot::take(&app, &metrics)]);
        Watch { app, metrics, view, past, ticks: 0 }
    }

    /// Takes a sample every [`EVERY`] seconds.
    pub(super) fn tick(&mut self) {
        self.ticks = (self.ticks + 1) % EVERY;
        if self.ticks > 0 {
            return;
        }
        let snapshot = MetricsSnapshot::take(&self.app, &self.metrics);
        let replicas = snapshot.replicas.clone();
        self.past.push_back(snapshot);
        if let Some(sample) = sample(&self.past) {
            self.view.keep(sample, replicas);
        }
        if self.past.len() > WINDOW {
            self.past.pop_front();
        }
    }
}
