//! Parses and checks experiment files.

mod containers;
mod hooks;
mod invariants;
mod predictions;
mod variables;
mod variants;

use std::path::Path;
use std::time::Duration;

use toml::de::DeTable;

use super::reader::{Mistake, Mistakes, Reader};
use super::{Experiment, FileError, Load, QuickLoad, QuickRounds, Rounds, Sources, Variant};
use crate::file::outline::Outline;
use crate::journal::record::Warning;
use crate::load::metric::LoadMetric;
use crate::observe::database::{Address, Addresses, Engine};
use crate::plan::Design;

/// A block takes minutes; more blocks are a typing error.
const BLOCKS: std::ops::Range<u32> = 1..1001;
/// A machine has ports for fewer virtual users.
const VUS: std::ops::Range<u32> = 1..1_000_001;
const RETRIES: std::ops::Range<u32> = 0..101;
/// Smaller differences are seldom relevant.
const DEFAULT_BAND: f64 = 0.01;
/// Names become parts of file names.
const NAME_BYTES: usize = 64;

/// Planned keys that this version does not support.
const TOP_NOT_YET: [&str; 1] = ["budgets"];

pub(super) fn experiment(origin: Origin<'_>) -> Result<Experiment, FileError> {
    parse(origin).map_err(|mistakes| FileError::Wrong { path: origin.file.to_owned(), mistakes })
}

fn parse(origin: Origin<'_>) -> Result<Experiment, Vec<Mistake>> {
    let Origin { text, outline, .. } = origin;
    let mistakes = Mistakes::new(text);
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let span = error.span().unwrap_or_default();
            // The message does not name a duplicate key.
            let key = text.get(span.clone()).filter(|_| error.message() == "duplicate key");
            let key = key.map_or_else(String::new, |key| format!(" `{key}`"));
            mistakes.add(span.start, format!("{}{key}", error.message()));
            return Err(mistakes.into_sorted());
        }
    };
    let parsed = top(Reader::new(table.get_ref(), &mistakes), origin);
    if let Some(known) = outline.and_then(|outline| outline.variables.as_ref()) {
        variables::check(table.get_ref(), known, &mistakes);
    }
    match (parsed, mistakes.into_sorted()) {
        (Some(experiment), mistakes) if mistakes.is_empty() => Ok(experiment),
        (_, mistakes) => Err(mistakes),
    }
}

impl Default for Rounds {
    fn default() -> Self {
        Self {
            // Enough pairs to detect about 1 %.
            blocks: 10,
            warm_up: None,
            // One broken round is bad luck, three in a row of the same block are a fault.
            retries: 2,
            pin_cpus: true,
            accept: Vec::new(),
            // Long enough for a server that migrates a large store at its start.
            start_limit: Duration::from_secs(60),
            // The longest documented load runs 11 minutes.
            time_limit: Duration::from_secs(3600),
            quick: None,
        }
    }
}

/// Text of an experiment, and its circumstances.
#[derive(Clone, Copy)]
pub(super) struct Origin<'o> {
    pub text: &'o str,
    pub file: &'o Path,
    pub dir: &'o Path,
    /// The files that it names may be missing.
    pub is_stored: bool,
    /// Anything that the outline lacks is a mistake.
    pub outline: Option<&'o Outline>,
}

fn top(mut top: Reader<'_>, origin: Origin<'_>) -> Option<Experiment> {
    let Origin { text, file, dir, .. } = origin;
    // For tables that are passed to the host unread.
    let whole: toml::Table = text.parse().unwrap_or_default();
    let name = match top.text("name") {
        Some(name) if is_name(&name) => Some(name),
        Some(name) => {
            top.refuse("name", format!("{NAME_RULE}, not {name:?}"));
            None
        }
        None => Some(usual_name(file, dir)),
    };
    let question = top.text("question");
    let reference = top.text("reference");
    let claims = top.list("prediction").unwrap_or_default();
    let band = top.positive("band").unwrap_or(DEFAULT_BAND);
    let observe = top.table("observe");
    let design = top.text("design");
    let data = top.table("data").and_then(|_| whole.get("data")?.as_table().cloned());
    let load =
        top.table("load").or_else(|| top.missing("load")).map(|load| read_load(load, origin));
    let rounds = top.table("rounds").map_or_else(Rounds::default, |mut reader| {
        let rounds = read_rounds(&mut reader);
        if let Some(Some(load)) = &load {
            check_time_limit(load, &rounds, &reader);
        }
        rounds
    });
    // A file describes a comparison; `madang limit SCRIPT` needs one variant only.
    let fewest = if file == Path::new(super::COMMAND_LINE) { 1 } else { 2 };
    let files = (!origin.is_stored).then_some(dir);
    let variants = top.table("variants").or_else(|| top.missing("variants"));
    let variants = variants.map(|variants| variants::all(&variants, &whole, files, fewest));
    let (known, variants) = variants.unzip();
    let hooks =
        hooks::all(top.table("hooks"), variants.as_deref().unwrap_or_default(), origin.outline);
    let values = top.table("values");
    let invariants = top.list("invariants").unwrap_or_default();
    top.finish(&TOP_NOT_YET);

    let known: Vec<String> = known?;
    if let Some(other) = reference.as_ref().filter(|one| !known.contains(one)) {
        let all = quoted(&known);
        top.refuse("reference", format!("must be one of the variants, {all}, not `{other}`"));
    }
    let reference = reference.or_else(|| known.first().cloned())?;
    let usable = variants.as_deref().unwrap_or_default();
    let names = Names { variants: &known, known: usable, reference: &reference };
    let load = load??;
    let observe = predictions::observed(observe, origin.outline);
    let predictions = predictions::all(claims, names, &observe, origin.outline);
    let variants = variants?;
    let (values, invariants) =
        invariants::all(values, invariants, &variants, &observe.databases, origin.outline);
    let design = design.and_then(|design| {
        let known = Design::ALL.iter().find(|(word, _)| *word == design);
        if known.is_none() {
            let words = quoted(&Design::ALL.map(|(word, _)| word));
            top.refuse("design", format!("must be one of {words}, not {design:?}"));
        }
        Some(known?.1)
    });
    let experiment = Experiment {
        file: file.to_owned(),
        sources: Sources { file: text.to_owned(), ..Sources::default() },
        dir: dir.to_owned(),
        name: name?,
        question: question.unwrap_or_else(|| usual_question(&known, &reference)),
        reference,
        predictions,
        band,
        design,
        data: data.unwrap_or_default(),
        load,
        rounds,
        variants,
        observe,
        hooks,
        values,
        invariants,
    };
    if design.is_some_and(Design::has_pairs)
        && let Some(why) = experiment.why_no_pairs()
    {
        top.refuse("design", format!("must be \"rounds\": {why}"));
    }
    Some(experiment)
}

/// Variants that the file may refer to.
#[derive(Clone, Copy)]
struct Names<'n> {
    variants: &'n [String],
    /// Variants without mistakes.
    known: &'n [Variant],
    reference: &'n str,
}

/// Reports a metric that the script does not have, if its outline is known.
fn check_metric(outline: Option<&Outline>, metric: &LoadMetric, reader: &Reader<'_>, key: &str) {
    if let Some(Err(why)) = outline.map(|outline| metric.check_outline(outline)) {
        reader.wrong(key, why.to_string());
    }
}

fn quoted<T: std::fmt::Display>(names: &[T]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

const NAME_RULE: &str =
    "must be 1 to 64 letters, digits, `-`, `_` or `.`, and start with a letter or digit";

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= NAME_BYTES
        && text.chars().all(plain)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn read_load(mut reader: Reader<'_>, origin: Origin<'_>) -> Option<Load> {
    let script = reader.required_text("script").map(|script| {
        let path = origin.dir.join(&script);
        if !origin.is_stored && !path.is_file() {
            let message = format!("`script` names `{}`, which is no file", path.display());
            reader.wrong("script", message);
        }
        path
    });
    let env = reader.strings("env").unwrap_or_default();
    let vus = reader.whole("vus", VUS);
    let duration = reader.positive_duration("duration");
    let generator = reader.words("generator").unwrap_or_default();
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
    Some(Load { script: script?, env, vus, duration, generator, quick })
}

/// Default name: from the file, or from its directory for `experiment.toml`.
fn usual_name(file: &Path, dir: &Path) -> String {
    let stem = file.file_stem().filter(|stem| *stem != "experiment");
    let name = stem.or_else(|| dir.file_name()).map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| is_name(name)).unwrap_or_else(|| "compare".to_owned())
}

fn usual_question(variants: &[String], reference: &str) -> String {
    let others: Vec<&str> =
        variants.iter().map(String::as_str).filter(|name| *name != reference).collect();
    format!("Is {} worse than {reference}?", others.join(" or "))
}

fn read_rounds(reader: &mut Reader<'_>) -> Rounds {
    let usual = Rounds::default();
    let rounds = Rounds {
        blocks: reader.whole("blocks", BLOCKS).unwrap_or(usual.blocks),
        warm_up: reader.duration("warm_up"),
        retries: reader.whole("retries", RETRIES).unwrap_or(usual.retries),
        pin_cpus: reader.boolean("pin_cpus").unwrap_or(usual.pin_cpus),
        accept: accepted(reader),
        start_limit: reader.positive_duration("start_limit").unwrap_or(usual.start_limit),
        time_limit: reader.positive_duration("time_limit").unwrap_or(usual.time_limit),
        quick: reader.table("quick").map(|mut quick| {
            let settings = QuickRounds {
                blocks: quick.whole("blocks", BLOCKS),
                warm_up: quick.duration("warm_up"),
            };
            quick.finish(&[]);
            settings
        }),
    };
    reader.finish(&[]);
    rounds
}

/// Addresses of the servers beside a variant: `mysql`, `redis` and `nginx`.
fn database_addresses(reader: &mut Reader<'_>) -> Addresses {
    let [mysql, redis, nginx] = Engine::ALL.map(|engine| {
        let address = reader.text(engine.key());
        address.and_then(|address| database_address(reader, engine, address, true))
    });
    Addresses { mysql, redis, nginx }
}

/// Checks an address. A `template` may contain placeholders.
fn database_address(
    reader: &Reader<'_>,
    engine: Engine,
    text: String,
    template: bool,
) -> Option<Address> {
    let address = Address::new(text);
    let checked = address.check(engine, template);
    checked.map_err(|why| reader.refuse_because(engine.key(), why)).ok().map(|()| address)
}

/// Warnings that the experiment accepts.
fn accepted(reader: &mut Reader<'_>) -> Vec<Warning> {
    let words = reader.words("accept");
    let known = quoted(&Warning::ACCEPTABLE.map(|(word, _)| word));
    let meant = |word: String| {
        let found = Warning::ACCEPTABLE.iter().find(|(known, _)| *known == word);
        if found.is_none() {
            reader.refuse("accept", format!("has `{word}`: accepted are {known}"));
        }
        found.map(|(_, warning)| *warning)
    };
    words.into_iter().flatten().filter_map(meant).collect()
}

/// A load that cannot end in time would break every round.
fn check_time_limit(load: &Load, rounds: &Rounds, reader: &Reader<'_>) {
    let quick_load = load.quick.clone().unwrap_or_default();
    let quick_rounds = rounds.quick.clone().unwrap_or_default();
    let ways = [
        ("", rounds.warm_up.unwrap_or_default(), load.duration),
        (
            " with --quick",
            quick_rounds.warm_up.or(rounds.warm_up).unwrap_or_default(),
            quick_load.duration.or(load.duration),
        ),
    ];
    // Without `duration`, the length is unknown.
    let too_long = |(_, warm_up, duration): &&(&str, Duration, Option<Duration>)| {
        *warm_up + duration.unwrap_or_default() >= rounds.time_limit
    };
    if let Some((when, ..)) = ways.iter().find(too_long) {
        reader.complain(format!(
            "`time_limit` in [rounds] must be longer than `warm_up` and `duration` together{when}"
        ));
    }
}
