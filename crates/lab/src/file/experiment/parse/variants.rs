//! Reads `[variants.NAME]`.

use std::path::Path;

use madang_stack::CpuBudget;

use super::super::reader::{Reader, is_nearly};
use super::super::{Container, Served, Target, Variant};
use super::{NAME_RULE, containers, database_addresses, is_name};

/// Planned keys that this version does not support.
const VARIANT_NOT_YET: [&str; 1] = ["memory"];
const PLACEHOLDERS: [&str; 2] = ["port", "dir"];
const SQLITE: &str = "sqlite:";

/// Names of all variants, and the variants without mistakes. `files` is the directory of files that variants name;
/// `None` if they may be missing.
pub(crate) fn all(
    reader: &Reader<'_>,
    whole: &toml::Table,
    files: Option<&Path>,
    fewest: usize,
) -> (Vec<String>, Vec<Variant>) {
    let mut known = Vec::new();
    let mut variants = Vec::new();
    let tables = reader.tables();
    if tables.len() < fewest {
        let message = "at least two variants are needed: [variants.NAME] for each";
        reader.complain(message);
    }
    for (name, table) in tables {
        if !is_name(&name) {
            table.complain(format!("a variant's name {NAME_RULE}, not {name:?}"));
        }
        known.push(name.clone());
        variants.extend(read_variant(table, &name, whole, files));
    }
    (known, variants)
}

fn read_variant(
    mut reader: Reader<'_>,
    name: &str,
    whole: &toml::Table,
    files: Option<&Path>,
) -> Option<Variant> {
    let load_env = reader.strings("load_env").unwrap_or_default();
    for (_, text) in &load_env {
        let is_there = |word: &&str| text.contains(&format!("{{{word}}}"));
        if let Some(word) = PLACEHOLDERS.into_iter().find(is_there) {
            let why = format!(
                "has `{{{word}}}`, which is replaced in what starts a server only: the script gets the server's \
                 address as `__ENV.BASE_URL`"
            );
            reader.refuse("load_env", why);
        }
    }
    let [database, metrics, cgroup] = ["database", "metrics", "cgroup"].map(|key| reader.text(key));
    let is_served = reader.has("serve") || reader.has("stack");
    if let Some(cgroup) = &cgroup {
        if is_served {
            let why = "is for servers of your own: what a `serve` variant uses is known";
            reader.refuse("cgroup", why);
        } else if reader.has("command") && !cgroup.contains("{port}") {
            let why =
                "must have `{port}` in it: each round of a `command` needs a cgroup of its own";
            reader.refuse("cgroup", why);
        }
    }
    let databases = database_addresses(&mut reader);
    let cpus = read_cpus(&mut reader);
    let price_per_hour = reader.positive("price_per_hour");
    if database.as_ref().is_some_and(|database| !database.starts_with(SQLITE)) {
        let why = format!(
            "must be `{SQLITE}PATH`, such as \"{SQLITE}{{dir}}/app.db\"; of MySQL, `mysql` is the key"
        );
        reader.refuse("database", why);
    }
    for (key, written) in [("database", &database), ("metrics", &metrics)] {
        if written.is_some() && is_served {
            let place = reader.title();
            reader.complain(format!("`{key}` in {place} is known of a `serve` variant"));
        }
    }
    check_address(&reader, "metrics", metrics.as_ref());
    if reader.has("stack") && cpus.is_some_and(|cpus| cpus.burst().is_some()) {
        let why = "must be a number of cores: nodes of a `stack` have no burstable budget";
        reader.refuse("cpus", why);
    }
    let mut target = read_target(reader, name, whole, files)?;
    if let (Target::Serve(served), Some(cpus)) = (&mut target, &cpus) {
        served.node_cpus = served.stack.as_ref().map(|_| cpus.base());
    }
    Some(Variant {
        name: name.to_owned(),
        target,
        load_env,
        database,
        metrics,
        cgroup,
        databases,
        cpus,
        price_per_hour,
    })
}

/// Reads `cpus`: a number of cores, or a burstable budget.
fn read_cpus(reader: &mut Reader<'_>) -> Option<CpuBudget> {
    let budget = if reader.is_table("cpus") {
        let mut table = reader.table("cpus")?;
        let mut number = |key| table.positive(key).or_else(|| table.missing(key));
        let numbers = (number("base"), number("burst"), number("credit_seconds"));
        table.finish(&[]);
        let (Some(base), Some(burst), Some(credit_seconds)) = numbers else { return None };
        CpuBudget::burstable(base, burst, credit_seconds)
    } else {
        CpuBudget::fixed(reader.positive("cpus")?)
    };
    if reader.has("url") {
        reader.refuse_because("cpus", "the server of a `url` is not ours to limit");
    }
    budget.map_err(|why| reader.refuse_because("cpus", why)).ok()
}

fn check_address(reader: &Reader<'_>, key: &str, address: Option<&String>) {
    let example = address.map(|address| address.replace("{port}", "1"));
    if let Some(Err(reason)) = example.map(|example| madang_stack::http::Url::parse(&example)) {
        reader.refuse_because(key, reason);
    }
}

/// Describes a word in braces that is nearly a placeholder. Other words, and `${word}`, belong to the program.
fn misspelt(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('{').collect();
    parts.windows(2).find_map(|pair| {
        let word = pair[1].split_once('}')?.0;
        let meant = PLACEHOLDERS.into_iter().find(|known| is_nearly(word, known))?;
        let is_word = word.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
        (is_word && !pair[0].ends_with('$'))
            .then(|| format!("has `{{{word}}}`: did you mean `{{{meant}}}`?"))
    })
}

fn read_target(
    mut reader: Reader<'_>,
    name: &str,
    whole: &toml::Table,
    files: Option<&Path>,
) -> Option<Target> {
    let (serve, stack) = (reader.table("serve"), reader.table("stack"));
    let argv = reader.words("command");
    let env = reader.strings("env");
    let words = argv.iter().flatten().map(|text| ("command", text));
    let texts = words.chain(env.iter().flatten().map(|(_, text)| ("env", text)));
    for (key, text) in texts.clone() {
        if let Some(why) = misspelt(text) {
            reader.refuse(key, why);
        }
    }
    let has_port = texts.into_iter().any(|(_, text)| text.contains("{port}"));
    let ready = reader.text("ready");
    let url = reader.text("url");
    let (source, port) = containers::source(&mut reader, files);
    let container = source.map(|source| Container {
        source,
        port,
        command: argv.clone().unwrap_or_default(),
        env: env.clone().unwrap_or_default(),
        ready: ready.clone(),
    });
    let sources = containers::KEYS.iter().filter(|key| reader.has(key)).count();
    let has_command = reader.has("command");
    // With an image, `command` holds its arguments.
    let commands = usize::from(has_command && sources == 0);
    // With a `stack`, `serve` holds the settings of its nodes.
    let is_served = serve.is_some() || stack.is_some();
    let others = usize::from(is_served) + usize::from(reader.has("url"));
    if sources + commands + others != 1 || (has_command && others > 0) {
        let message = format!(
            "[variants.{name}] needs exactly one of `serve`, `command`, `image`, `build`, `compose` and `url`"
        );
        reader.complain(message);
    }
    if let Some(container) = &container {
        containers::check(&reader, container);
    }
    let is_started = has_command || container.is_some();
    for (key, written) in [("env", env.is_some()), ("ready", ready.is_some())] {
        if written && !is_started {
            let message =
                format!("`{key}` in [variants.{name}] belongs to a `command` or a container");
            reader.complain(message);
        }
    }
    if commands == 1 && ready.is_none() && !has_port {
        let message = format!(
            "[variants.{name}] needs `{{port}}` in its `command`, replaced by the port to listen on, or `ready`, an \
             address that answers when the server is ready"
        );
        reader.complain(message);
    }
    check_address(&reader, "ready", ready.as_ref());
    check_address(&reader, "url", url.as_ref());
    reader.finish(&VARIANT_NOT_YET);
    if let Some(container) = container {
        return Some(Target::Container(container));
    }
    match (is_served, argv, url) {
        (true, ..) => {
            let variant = whole.get("variants")?.get(name)?;
            let table = |key: &str| variant.get(key).and_then(toml::Value::as_table).cloned();
            let settings = table("serve").unwrap_or_default();
            Some(Target::Serve(Served { settings, stack: table("stack"), node_cpus: None }))
        }
        (_, Some(argv), _) => Some(Target::Command { argv, env: env.unwrap_or_default(), ready }),
        (.., Some(url)) => Some(Target::Url(url.trim_end_matches('/').to_owned())),
        _ => None,
    }
}
