//! From the text of an experiment file to a checked [`Experiment`].

use std::{path::Path, time::Duration};

use toml::de::DeTable;

use super::{
    Bound, Documented, Experiment, Load, Prediction, QuickLoad, QuickRounds, Rounds, Target,
    Variant,
    reader::{Found, Mistake, Mistakes, Reader},
};
use crate::metric::Metric;

/// A block is minutes of work; more than this is a typing error.
const BLOCKS: std::ops::Range<u32> = 1..1001;
/// More virtual users than a machine has ports for.
const VUS: std::ops::Range<u32> = 1..1_000_001;
const RETRIES: std::ops::Range<u32> = 0..101;
/// One broken round is bad luck, three in a row of the same block are a fault.
const DEFAULT_RETRIES: u32 = 2;
/// A server that migrates a large store at its start stays below this.
const DEFAULT_START_LIMIT: Duration = Duration::from_secs(60);
/// The longest documented load runs 11 minutes.
const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(3600);
/// Names become parts of file names.
const NAME_BYTES: usize = 64;

/// Keys of the plan that this version refuses by name.
const TOP_NOT_YET: [&str; 6] = ["invariants", "hooks", "prepare", "reset", "drain", "budgets"];
const VARIANT_NOT_YET: [&str; 2] = ["cpus", "memory"];

pub fn experiment(text: &str, file: &Path, dir: &Path) -> Result<Experiment, Vec<Mistake>> {
    let mistakes = Mistakes::new(text);
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            mistakes.add(error.span().map_or(0, |span| span.start), error.message());
            return Err(mistakes.into_sorted());
        }
    };
    let parsed = top(Reader::new(table.get_ref(), &mistakes), text, file, dir);
    match (parsed, mistakes.into_sorted()) {
        (Some(experiment), mistakes) if mistakes.is_empty() => Ok(experiment),
        (_, mistakes) => Err(mistakes),
    }
}

fn top(mut top: Reader<'_>, text: &str, file: &Path, dir: &Path) -> Option<Experiment> {
    // Tables that go to the host unread: it knows what may be in them.
    let whole: toml::Table = text.parse().unwrap_or_default();
    let name = top.required_text("name").and_then(|found| checked_name(&top, "name", found));
    let question = top.required_text("question").map(|found| found.value);
    let reference = top.required_text("reference");
    let prediction = top.table("prediction").or_else(|| top.missing("prediction"));
    let prediction = prediction.map(|reader| (reader.offset(), prediction_of(reader)));
    let documented = top.table("documented");
    let data = top.table("data").and_then(|_| whole.get("data")?.as_table().cloned());
    let load = top.table("load").or_else(|| top.missing("load")).map(|load| load_of(load, dir));
    let rounds = top.table("rounds").or_else(|| top.missing("rounds"));
    let rounds = rounds.map(|reader| (reader.offset(), rounds_of(reader)));
    if let (Some(Some(load)), Some((offset, Some(rounds)))) = (&load, &rounds) {
        check_time_limit(load, rounds, *offset, top.mistakes());
    }
    let rounds = rounds.and_then(|(_, rounds)| rounds);
    let variants = top.table("variants").or_else(|| top.missing("variants"));
    let variants = variants.map(|variants| variants_of(&variants, &whole));
    let (known, variants) = variants.unzip();
    let mistakes = top.mistakes();
    top.not_yet(&TOP_NOT_YET);
    top.finish(&TOP_NOT_YET);

    let known: Vec<String> = known?;
    let reference = reference?;
    if !known.contains(&reference.value) {
        let message = format!(
            "`reference` must be one of the variants, {}, not `{}`",
            quoted(&known),
            reference.value
        );
        mistakes.add(reference.offset, message);
    }
    if let Some(documented) = &documented {
        check_documented(documented, &known);
    }
    let (offset, prediction) = prediction?;
    let prediction = prediction?;
    let others: Vec<String> = known.into_iter().filter(|name| *name != reference.value).collect();
    if !others.contains(&prediction.variant) {
        let message = format!(
            "`variant` in [prediction] must be a variant other than the reference: {}",
            quoted(&others)
        );
        mistakes.add(offset, message);
    }
    Some(Experiment {
        file: file.to_owned(),
        dir: dir.to_owned(),
        name: name?,
        question: question?,
        reference: reference.value,
        prediction,
        documented: documented.map_or_else(Vec::new, |reader| documented_of(&reader)),
        data: data.unwrap_or_default(),
        load: load??,
        rounds: rounds?,
        variants: variants?,
    })
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

fn checked_name(reader: &Reader<'_>, key: &str, found: Found<String>) -> Option<String> {
    if is_name(&found.value) {
        return Some(found.value);
    }
    let message = format!("`{key}` {NAME_RULE}, not {:?}", found.value);
    reader.mistakes().add(found.offset, message);
    None
}

const NAME_RULE: &str =
    "must be 1 to 64 letters, digits, `-`, `_` or `.`, and start with a letter or digit";

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= NAME_BYTES
        && text.chars().all(plain)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn prediction_of(mut reader: Reader<'_>) -> Option<Prediction> {
    let metric = reader.required_text("metric").and_then(|found| {
        let metric = Metric::from_id(&found.value);
        if metric.is_none() {
            let accepted: Vec<String> =
                Metric::ALL.iter().map(|metric| format!("`{}`", metric.id())).collect();
            let message =
                format!("unknown metric `{}`: accepted are {}", found.value, accepted.join(", "));
            reader.mistakes().add(found.offset, message);
        }
        metric
    });
    let variant = reader.required_text("variant").map(|found| found.value);
    let bounds = (reader.positive("ratio_at_most"), reader.positive("ratio_at_least"));
    let written = (reader.has("ratio_at_most"), reader.has("ratio_at_least"));
    if written.0 == written.1 {
        let message = "[prediction] needs exactly one of `ratio_at_most` and `ratio_at_least`";
        reader.mistakes().add(reader.offset(), message);
    }
    reader.finish(&[]);
    let bound = match bounds {
        (Some(ratio), None) => Bound::RatioAtMost(ratio),
        (None, Some(ratio)) => Bound::RatioAtLeast(ratio),
        _ => return None,
    };
    Some(Prediction { metric: metric?, variant: variant?, bound })
}

fn check_documented(reader: &Reader<'_>, known: &[String]) {
    for (variant, figures) in reader.tables() {
        if !known.contains(&variant) {
            let message =
                format!("[documented.{variant}] names no variant: accepted are {}", quoted(known));
            reader.mistakes().add(figures.offset(), message);
        }
    }
}

fn documented_of(reader: &Reader<'_>) -> Vec<Documented> {
    let read = |(variant, figures): (String, Reader<'_>)| Documented {
        variant,
        figures: figures.figures(),
    };
    reader.tables().into_iter().map(read).collect()
}

fn load_of(mut reader: Reader<'_>, dir: &Path) -> Option<Load> {
    let script = reader.required_text("script").map(|found| {
        let path = dir.join(&found.value);
        if !path.is_file() {
            let message = format!("`script` names `{}`, which is no file", path.display());
            reader.mistakes().add(found.offset, message);
        }
        path
    });
    let env = reader.strings("env").unwrap_or_default();
    let vus = reader.whole("vus", VUS);
    let duration = reader.positive_duration("duration");
    let quick = reader.table("quick").map(|mut quick| {
        let settings = QuickLoad {
            env: quick.strings("env").unwrap_or_default(),
            vus: quick.whole("vus", VUS),
            duration: quick.positive_duration("duration"),
        };
        quick.finish(&[]);
        settings
    });
    reader.finish(&[]);
    Some(Load { script: script?, env, vus, duration, quick })
}

fn rounds_of(mut reader: Reader<'_>) -> Option<Rounds> {
    let blocks = reader.whole("blocks", BLOCKS).or_else(|| reader.missing("blocks"));
    let warm_up = reader.duration("warm_up").unwrap_or_default();
    let retries = reader.whole("retries", RETRIES).unwrap_or(DEFAULT_RETRIES);
    let pin_cpus = reader.boolean("pin_cpus").unwrap_or(true);
    let start_limit = reader.positive_duration("start_limit").unwrap_or(DEFAULT_START_LIMIT);
    let time_limit = reader.positive_duration("time_limit").unwrap_or(DEFAULT_TIME_LIMIT);
    let quick = reader.table("quick").map(|mut quick| {
        let settings = QuickRounds {
            blocks: quick.whole("blocks", BLOCKS),
            warm_up: quick.duration("warm_up"),
        };
        quick.finish(&[]);
        settings
    });
    reader.finish(&[]);
    let blocks = blocks?;
    Some(Rounds { blocks, warm_up, retries, pin_cpus, start_limit, time_limit, quick })
}

/// A load that cannot end in time would break every round, an hour later.
fn check_time_limit(load: &Load, rounds: &Rounds, offset: usize, mistakes: &Mistakes<'_>) {
    let quick_load = load.quick.clone().unwrap_or_default();
    let quick_rounds = rounds.quick.clone().unwrap_or_default();
    let ways = [
        ("", rounds.warm_up, load.duration),
        (
            " with --quick",
            quick_rounds.warm_up.unwrap_or(rounds.warm_up),
            quick_load.duration.or(load.duration),
        ),
    ];
    // Without `duration` only the script knows how long it takes.
    let too_long = |(_, warm_up, duration): &&(&str, Duration, Option<Duration>)| {
        *warm_up + duration.unwrap_or_default() >= rounds.time_limit
    };
    if let Some((when, ..)) = ways.iter().find(too_long) {
        let message = format!(
            "`time_limit` in [rounds] must be longer than `warm_up` and `duration` together{when}"
        );
        mistakes.add(offset, message);
    }
}

/// The names of all variants, and those variants that can be used.
fn variants_of(reader: &Reader<'_>, whole: &toml::Table) -> (Vec<String>, Vec<Variant>) {
    let mut known = Vec::new();
    let mut variants = Vec::new();
    let tables = reader.tables();
    if tables.len() < 2 {
        let message = "at least two variants are needed: [variants.NAME] for each";
        reader.mistakes().add(reader.offset(), message);
    }
    for (name, table) in tables {
        if !is_name(&name) {
            let message = format!("a variant's name {NAME_RULE}, not {name:?}");
            reader.mistakes().add(table.offset(), message);
        }
        known.push(name.clone());
        if let Some(target) = target_of(table, &name, whole) {
            variants.push(Variant { name, target });
        }
    }
    (known, variants)
}

fn target_of(mut reader: Reader<'_>, name: &str, whole: &toml::Table) -> Option<Target> {
    let serve = reader.table("serve");
    let argv = reader.words("command");
    let env = reader.strings("env");
    let ready = reader.text("ready");
    let url = reader.text("url");
    let (mistakes, offset) = (reader.mistakes(), reader.offset());
    let kinds = ["serve", "command", "url"].iter().filter(|key| reader.has(key)).count();
    if kinds != 1 {
        let message =
            format!("[variants.{name}] needs exactly one of `serve`, `command` and `url`");
        mistakes.add(offset, message);
    }
    let has_command = reader.has("command");
    for (key, written) in [("env", env.is_some()), ("ready", ready.is_some())] {
        if written && !has_command {
            let message = format!("`{key}` in [variants.{name}] belongs to a `command`");
            mistakes.add(offset, message);
        }
    }
    if has_command && ready.is_none() {
        reader.missing::<()>("ready");
    }
    let addresses = [("ready", &ready), ("url", &url)];
    for (key, found) in addresses.iter().filter_map(|(key, found)| Some((key, found.as_ref()?))) {
        let example = found.value.replace("{port}", "1");
        if let Err(reason) = madang_stack::http::Url::parse(&example) {
            mistakes.add(found.offset, format!("`{key}` in [variants.{name}]: {reason}"));
        }
    }
    reader.not_yet(&VARIANT_NOT_YET);
    reader.finish(&VARIANT_NOT_YET);
    match (serve, argv, url) {
        (Some(_), ..) => {
            let settings = whole.get("variants")?.get(name)?.get("serve")?.as_table()?;
            Some(Target::Serve(settings.clone()))
        }
        (_, Some(argv), _) => {
            Some(Target::Command { argv, env: env.unwrap_or_default(), ready: ready?.value })
        }
        (.., Some(url)) => Some(Target::Url(url.value.trim_end_matches('/').to_owned())),
        _ => None,
    }
}
