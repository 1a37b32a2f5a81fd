//! Reads the values of invariants before and after the load, and checks them.

pub(crate) mod json;
mod sql;

use std::io;
use std::time::Duration;

use madang_stack::http::{self, Url, UrlError};

use crate::file::experiment::{Experiment, Limit, Source};
use crate::file::expression::NotFinite;
use crate::journal::record::{Checked, CheckedLimit, Observed};
use crate::load::metric::{LoadMetric, MetricError};
use crate::load::report::LoadReport;
use crate::observe::database::{self, Address, DatabaseError, Engine};
use crate::observe::prometheus::Selector;
use crate::round::action::{CommandEnv, CommandError, Runner};

const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Values before or after the load.
pub(crate) struct Values {
    /// By the experiment's values; `None` for values that are not needed before the load.
    named: Vec<Option<f64>>,
    /// By invariant; `None` for formulas, for those about other variants, and before the load for those that do not
    /// need it: the source may not exist yet.
    own: Vec<Option<f64>>,
    /// By observed series; `None` if the page does not have it.
    observed: Vec<Option<f64>>,
}

pub(crate) struct ValueReader<'t> {
    pub experiment: &'t Experiment,
    pub variant: &'t str,
    pub runner: Runner<'t>,
    pub env: CommandEnv<'t>,
}

/// A series that is missing before the load is zero; after it, the name is wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    After,
}

impl Moment {
    fn text(self) -> &'static str {
        match self {
            Self::Before => "asked before the load",
            Self::After => "asked after the load",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueError {
    #[error("its variant has no known {0}")]
    NoSource(&'static str),
    #[error("a formula is not taken")]
    Formula,
    #[error("{0}")]
    Address(#[from] UrlError),
    #[error("{0}")]
    Http(#[from] io::Error),
    #[error("{0}")]
    Database(#[from] DatabaseError),
    #[error("{0}")]
    Command(#[from] CommandError),
    #[error("{0}")]
    Metric(#[from] MetricError),
    #[error("{0}")]
    NotFinite(#[from] NotFinite),
    /// The response, page or output does not contain the number.
    #[error("{0}")]
    NoNumber(String),
    #[error("{place}: {why}")]
    At { place: String, why: Box<Self> },
}

impl ValueError {
    fn no_name(name: &str) -> Self {
        Self::NoNumber(format!("there is no {name}"))
    }

    fn at(self, place: impl Into<String>) -> Self {
        Self::At { place: place.into(), why: Box::new(self) }
    }
}

impl ValueReader<'_> {
    /// Reads every value once.
    pub(crate) fn take(&self, moment: Moment) -> Result<Values, ValueError> {
        let experiment = self.experiment;
        let page = self.page()?;
        let page = page.as_deref();
        let mut named = Vec::new();
        for value in &experiment.values {
            let is_wanted = moment == Moment::After || experiment.needs_before(&value.name);
            let number = is_wanted.then(|| self.number(&value.source, page, moment));
            let place = || format!("[values.{}], {}", value.name, moment.text());
            named.push(number.transpose().map_err(|why| why.at(place()))?);
        }
        let mut own = Vec::new();
        for invariant in &experiment.invariants {
            let is_wanted = moment == Moment::After || invariant.needs_before();
            let is_taken = is_wanted
                && invariant.concerns(self.variant)
                && !matches!(invariant.source, Source::Value(_));
            let number = is_taken.then(|| self.number(&invariant.source, page, moment));
            let place = || format!("invariant \"{}\", {}", invariant.name, moment.text());
            own.push(number.transpose().map_err(|why| why.at(place()))?);
        }
        let observed = &experiment.observe.metrics;
        let observed = observed.iter().map(|series| page.and_then(|page| series.sum(page)));
        Ok(Values { named, own, observed: observed.collect() })
    }

    /// The server's metrics page, if it is needed.
    fn page(&self) -> Result<Option<String>, ValueError> {
        let experiment = self.experiment;
        let of_values = experiment.values.iter().map(|value| &value.source);
        let of_invariants = experiment.invariants.iter().map(|invariant| &invariant.source);
        let is_asked = !experiment.observe.metrics.is_empty()
            || of_values.chain(of_invariants).any(|source| matches!(source, Source::Metrics(_)));
        if !is_asked || self.env.metrics.is_empty() {
            return Ok(None);
        }
        pages(self.env.metrics, ANSWER_TIME).map(Some)
    }

    fn number(
        &self,
        source: &Source,
        page: Option<&str>,
        moment: Moment,
    ) -> Result<f64, ValueError> {
        let cancel = self.runner.cancel;
        match source {
            Source::Sql(query) => match (self.env.database, self.databases(Engine::Mysql)) {
                (Some(database), _) => {
                    Ok(sql::number(database, query, &self.experiment.dir, cancel)?)
                }
                (None, Some(mysql)) => self.mysql(mysql, query),
                (None, None) => Err(ValueError::NoSource("database")),
            },
            Source::Mysql { sql, mysql } => self.mysql(mysql, sql),
            Source::Redis { command, redis } => {
                let redis = redis.as_ref().or(self.databases(Engine::Redis));
                let redis = redis.ok_or(ValueError::NoSource("Redis"))?;
                let number = database::redis::number(redis, command, cancel);
                number.map_err(|why| ValueError::from(why).at(redis.to_string()))
            }
            Source::Http { http, json: path } => {
                let base_url = self.env.base_url.unwrap_or_default();
                let url =
                    if http.starts_with('/') { format!("{base_url}{http}") } else { http.clone() };
                let answer = body(&Url::parse(&url)?, ANSWER_TIME);
                let number = answer.and_then(|answer| json::number(&answer, path));
                number.map_err(|why| why.at(url))
            }
            Source::Metrics(series) => sum(series, page, moment),
            Source::Script(argv) => {
                let lines = self.runner.run(argv, &self.env)?;
                let line = lines.iter().map(|line| line.trim()).find(|line| !line.is_empty());
                let refused = |what: String| {
                    ValueError::NoNumber(format!("`{}` printed {what}", argv.join(" ")))
                };
                let line = line.ok_or_else(|| refused("nothing".to_owned()))?;
                let number = line.parse().ok().filter(|number: &f64| number.is_finite());
                number.ok_or_else(|| refused(format!("no number but {line:?}")))
            }
            Source::Value(_) => Err(ValueError::Formula),
        }
    }

    fn databases(&self, engine: Engine) -> Option<&Address> {
        self.env.databases.and_then(|databases| databases.get(engine))
    }

    fn mysql(&self, address: &Address, query: &str) -> Result<f64, ValueError> {
        let number = database::mysql::number(address, query, self.runner.cancel);
        number.map_err(|why| ValueError::from(why).at(address.to_string()))
    }
}

fn sum(series: &Selector, page: Option<&str>, moment: Moment) -> Result<f64, ValueError> {
    let page = page.ok_or(ValueError::NoSource("metrics page"))?;
    match series.sum(page) {
        Some(sum) => Ok(sum),
        None if moment == Moment::Before => Ok(0.0),
        None => Err(ValueError::NoNumber(format!("the metrics page has no series `{series}`"))),
    }
}

/// The concatenated metrics pages: sums over a series then include all nodes.
pub(crate) fn pages(urls: &[Url], answer_time: Duration) -> Result<String, ValueError> {
    let page = |url: &Url| match body(url, answer_time) {
        Ok(body) => Ok(String::from_utf8_lossy(&body).into_owned()),
        Err(why) => Err(why.at(format!("the metrics page {url}"))),
    };
    urls.iter().map(page).collect()
}

fn body(url: &Url, answer_time: Duration) -> Result<Vec<u8>, ValueError> {
    let answer = http::get(url, answer_time)?;
    if !(200..300).contains(&answer.status) {
        return Err(ValueError::NoNumber(format!("status {}", answer.status)));
    }
    if !answer.is_whole {
        let bytes = answer.body.len();
        return Err(ValueError::NoNumber(format!(
            "the answer was cut off after {bytes} bytes (at most 8 MiB in {answer_time:?})"
        )));
    }
    Ok(answer.body)
}

/// Checks the invariants of a variant.
pub(crate) fn check(
    experiment: &Experiment,
    variant: &str,
    before: &Values,
    after: &Values,
    load: &LoadReport,
) -> Result<Vec<Checked>, ValueError> {
    let mut checked = Vec::new();
    let concerned = |index: &usize| experiment.invariants[*index].concerns(variant);
    for index in (0..experiment.invariants.len()).filter(concerned) {
        let invariant = &experiment.invariants[index];
        let broken = |why: ValueError| why.at(format!("invariant \"{}\"", invariant.name));
        let own = before.own[index];
        let resolve = |name: &str| match name.split_once('.') {
            None if name == "before" => own.ok_or_else(|| ValueError::no_name("`before`")),
            Some(("before", name)) => named(experiment, before, name),
            Some(("after", name)) => named(experiment, after, name),
            Some(("load", name)) => {
                let value = LoadMetric::parse(name)?.overall_value_in(load);
                value.map_err(|why| ValueError::NoNumber(format!("`load.{name}`: {why}")))
            }
            _ => Err(ValueError::no_name(&format!("`{name}`"))),
        };
        let value = match (&invariant.source, after.own[index]) {
            (Source::Value(formula), _) => formula.evaluate(&resolve).map_err(broken)?,
            (_, Some(value)) if invariant.change => value - own.unwrap_or_default(),
            (_, value) => value.unwrap_or_default(),
        };
        let mut limits = Vec::new();
        for Limit { bound, formula } in &invariant.limits {
            let limit = formula.evaluate(&resolve).map_err(broken)?;
            limits.push(CheckedLimit { bound: *bound, formula: formula.to_string(), limit });
        }
        let holds = limits.iter().all(|limit| Limit::holds(limit.bound, value, limit.limit));
        let name = invariant.name.clone();
        checked.push(Checked { name, holds, value, before: own, limits });
    }
    Ok(checked)
}

fn named(experiment: &Experiment, taken: &Values, name: &str) -> Result<f64, ValueError> {
    let index = experiment.values.iter().position(|value| value.name == name);
    let value = index.and_then(|index| taken.named.get(index).copied()?);
    value.ok_or_else(|| ValueError::no_name(&format!("value `{name}`")))
}

/// Changes of the observed series; `steps` returns values over time by index.
pub(crate) fn observed(
    experiment: &Experiment,
    before: &Values,
    after: &Values,
    steps: &dyn Fn(usize) -> Vec<f64>,
) -> Vec<Observed> {
    let pairs = before.observed.iter().zip(&after.observed);
    let series = experiment.observe.metrics.iter().zip(pairs).enumerate();
    let observed = series.map(|(place, (series, (before, after)))| Observed {
        series: series.to_string(),
        change: after.map(|after| after - before.unwrap_or(0.0)),
        steps: steps(place),
    });
    observed.collect()
}
