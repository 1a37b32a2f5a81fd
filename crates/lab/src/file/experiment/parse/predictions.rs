//! Reads `prediction` and `[observe]`.

use super::super::reader::Reader;
use super::super::{Bound, Observe, Prediction, Variant};
use super::{Names, check_metric, database_addresses, quoted};
use crate::file::outline::Outline;
use crate::judge::metric::Metric;
use crate::load::metric::{LoadMetric, MetricError};
use crate::observe::database::Figure;
use crate::observe::prometheus::Selector;

const BOUNDS: [&str; 5] =
    ["ratio_at_most", "ratio_at_least", "difference_below", "at_most", "at_least"];

pub(crate) fn observed(reader: Option<Reader<'_>>, outline: Option<&Outline>) -> Observe {
    let Some(mut reader) = reader else { return Observe::default() };
    let databases = database_addresses(&mut reader);
    let (metrics, load) = (reader.words("metrics"), reader.words("load"));
    let mut observe = Observe { databases, ..Observe::default() };
    for text in metrics.into_iter().flatten() {
        match Selector::parse(&text) {
            Ok(selector) => observe.metrics.push(selector),
            Err(why) => reader.refuse_because("metrics", why),
        }
    }
    for text in load.into_iter().flatten() {
        match LoadMetric::parse(&text) {
            Ok(metric) => {
                check_metric(outline, &metric, &reader, "load");
                observe.load.push(metric);
            }
            Err(why) => reader.refuse_because("load", why),
        }
    }
    reader.finish(&[]);
    observe
}

pub(crate) fn all(
    readers: Vec<Reader<'_>>,
    names: Names<'_>,
    observe: &Observe,
    outline: Option<&Outline>,
) -> Vec<Prediction> {
    let one = |reader| prediction(reader, names, observe, outline);
    readers.into_iter().filter_map(one).collect()
}

fn prediction(
    mut reader: Reader<'_>,
    names: Names<'_>,
    observe: &Observe,
    outline: Option<&Outline>,
) -> Option<Prediction> {
    let metric = reader.required_text("metric");
    let variant = reader.required_text("variant");
    let bound = bound(&mut reader);
    reader.finish(&[]);
    let metric = metric.and_then(|text| {
        let metric = parse_metric(&text, observe);
        match &metric {
            Ok(Metric::Load(metric)) => check_metric(outline, metric, &reader, "metric"),
            Ok(Metric::Database(figure)) => {
                let without = |known: &&Variant| {
                    let of_pair = bound.is_none_or(Bound::is_ratio);
                    let concerned = Some(&known.name) == variant.as_ref()
                        || (of_pair && known.name == *names.reference);
                    // A stack reports its databases when it is ready.
                    concerned
                        && !known.has_stack()
                        && known.databases.or(&observe.databases).get(figure.engine).is_none()
                };
                if let Some(lacking) = names.known.iter().find(without) {
                    let (key, name) = (figure.engine.key(), &lacking.name);
                    let why =
                        format!("`{figure}` needs `{key}` in [observe] or in [variants.{name}]");
                    reader.wrong("metric", why);
                }
            }
            Ok(_) => {}
            Err(why) => reader.wrong("metric", why.to_string()),
        }
        metric.ok()
    });
    let (variant, bound) = (variant?, bound?);
    // A ratio needs another variant than the reference.
    let may_be = |name: &&String| !bound.is_ratio() || *name != names.reference;
    let accepted: Vec<&String> = names.variants.iter().filter(may_be).collect();
    if !accepted.contains(&&variant) {
        let other =
            if bound.is_ratio() { "a variant other than the reference" } else { "a variant" };
        let known = match accepted.is_empty() {
            true => ", and there is no other: add one".to_owned(),
            false => format!(": {}", quoted(&accepted)),
        };
        reader.complain(format!("`variant` in [prediction] must be {other}{known}"));
    }
    Some(Prediction { metric: metric?, variant, bound })
}

fn bound(reader: &mut Reader<'_>) -> Option<Bound> {
    let found = [
        reader.positive("ratio_at_most").map(Bound::RatioAtMost),
        reader.positive("ratio_at_least").map(Bound::RatioAtLeast),
        reader.positive("difference_below").map(Bound::DifferenceBelow),
        reader.amount("at_most").map(Bound::AtMost),
        reader.amount("at_least").map(Bound::AtLeast),
    ];
    if BOUNDS.iter().filter(|key| reader.has(key)).count() != 1 {
        reader.complain(format!("[prediction] needs exactly one of {}", quoted(&BOUNDS)));
    }
    found.into_iter().flatten().next()
}

#[derive(Debug, thiserror::Error)]
#[error(
    "unknown metric `{text}`{}: accepted are {}; a figure of the load with its statistic, such as \
     `http_req_duration{{scenario:bystander}}.p99` or `my_counter.count`; a series that `metrics` in \
     [observe] names; of the databases there, {}",
    .why.as_ref().map_or_else(String::new, |why| format!(" ({why})")),
    quoted(&Metric::own().map(|metric| metric.id()).collect::<Vec<_>>()),
    quoted(&Figure::ALL)
)]
struct UnknownMetric {
    text: String,
    why: Option<MetricError>,
}

fn parse_metric(text: &str, observe: &Observe) -> Result<Metric, UnknownMetric> {
    if let Some(metric) = Metric::from_id(text) {
        return Ok(metric);
    }
    let series = Selector::parse(text).ok().filter(|series| observe.metrics.contains(series));
    if let Some(series) = series {
        return Ok(Metric::Server(series));
    }
    if let Some(figure) = Figure::parse(text) {
        return Ok(Metric::Database(figure));
    }
    match LoadMetric::parse(text) {
        Ok(metric) if metric.statistic.is_some() => Ok(Metric::Load(metric)),
        parsed => Err(UnknownMetric { text: text.to_owned(), why: parsed.err() }),
    }
}
