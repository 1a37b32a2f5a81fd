//! `[variants.NAME]`: what is compared.

use std::path::Path;

use super::super::reader::{Located, Reader, is_nearly};
use super::super::{Container, Served, Target, Variant};
use super::{NAME_RULE, budget, containers, databases, is_name};

/// Keys of the plan that this version refuses by name.
const VARIANT_NOT_YET: [&str; 1] = ["memory"];
/// What is replaced in each round.
const PLACEHOLDERS: [&str; 2] = ["port", "dir"];
/// How the only databases begin that can be read so far.
const SQLITE: &str = "sqlite:";

/// The names of all variants, and those variants that can be used.
///
/// `files` is the directory in which the files that variants name have to be; `None` if they are not needed.
pub fn all(
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
        reader.mistakes().add(reader.offset(), message);
    }
    for (name, table) in tables {
        if !is_name(&name) {
            let message = format!("a variant's name {NAME_RULE}, not {name:?}");
            reader.mistakes().add(table.offset(), message);
        }
        known.push(name.clone());
        variants.extend(variant_of(table, &name, whole, files));
    }
    (known, variants)
}

fn variant_of(
    mut reader: Reader<'_>,
    name: &str,
    whole: &toml::Table,
    files: Option<&Path>,
) -> Option<Variant> {
    let env_offset = reader.offset_of("load_env");
    let load_env = reader.strings("load_env").unwrap_or_default();
    for (_, text) in &load_env {
        if let Some(word) =
            PLACEHOLDERS.into_iter().find(|word| text.contains(&format!("{{{word}}}")))
        {
            let message = format!(
                "`load_env` in [variants.{name}] has `{{{word}}}`, which is replaced in what starts a \
                 server only: the script gets the server's address as `__ENV.BASE_URL`"
            );
            reader.mistakes().add(env_offset, message);
        }
    }
    let database = reader.text("database");
    let metrics = reader.text("metrics");
    let cgroup = reader.text("cgroup");
    if let Some(cgroup) = &cgroup {
        let in_rounds = reader.has("command") && !cgroup.value.contains("{port}");
        let why = if reader.has("serve") || reader.has("stack") {
            "is for servers of your own: what a `serve` variant uses is known"
        } else if in_rounds {
            "must have `{port}` in it: each round of a `command` needs a cgroup of its own"
        } else {
            ""
        };
        if !why.is_empty() {
            let message = format!("`cgroup` in [variants.{name}] {why}");
            reader.mistakes().add(cgroup.offset, message);
        }
    }
    let databases = databases::beside(&mut reader);
    let cpus = budget::cpus(&mut reader, name);
    let price_per_hour = reader.positive("price_per_hour");
    if let Some(database) = &database
        && !database.value.starts_with(SQLITE)
    {
        let message = format!(
            "`database` in [variants.{name}] must be `{SQLITE}PATH`, such as \
             \"{SQLITE}{{dir}}/app.db\"; of MySQL, `mysql` is the key"
        );
        reader.mistakes().add(database.offset, message);
    }
    for (key, written) in [("database", &database), ("metrics", &metrics)] {
        if written.is_some() && (reader.has("serve") || reader.has("stack")) {
            let message = format!("`{key}` in [variants.{name}] is known of a `serve` variant");
            reader.mistakes().add(reader.offset(), message);
        }
    }
    let metrics_address = metrics.map(|found| {
        check_address(&reader, name, "metrics", &found);
        found.value
    });
    if reader.has("stack") && cpus.is_some_and(|cpus| cpus.burst().is_some()) {
        let message = format!(
            "`cpus` in [variants.{name}] must be a number of cores: nodes of a `stack` have no burstable budget"
        );
        reader.mistakes().add(reader.offset_of("cpus"), message);
    }
    let mut target = target_of(reader, name, whole, files)?;
    if let (Target::Serve(served), Some(cpus)) = (&mut target, &cpus) {
        served.node_cpus = served.stack.as_ref().map(|_| cpus.base());
    }
    Some(Variant {
        name: name.to_owned(),
        target,
        load_env,
        database: database.map(|found| found.value),
        metrics: metrics_address,
        cgroup: cgroup.map(|found| found.value),
        databases,
        cpus,
        price_per_hour,
    })
}

fn check_address(reader: &Reader<'_>, name: &str, key: &str, found: &Located<String>) {
    let example = found.value.replace("{port}", "1");
    if let Err(reason) = madang_stack::http::Url::parse(&example) {
        reader.mistakes().add(found.offset, format!("`{key}` in [variants.{name}]: {reason}"));
    }
}

/// Complains of a word in braces that is nearly a placeholder. Others are the program's own, such as those
/// of awk or JSON, and so is `${word}`.
fn misspelt(key: &str, name: &str, text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('{').collect();
    parts.windows(2).find_map(|pair| {
        let word = pair[1].split_once('}')?.0;
        let meant = PLACEHOLDERS.into_iter().find(|known| is_nearly(word, known))?;
        let is_word = word.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
        (is_word && !pair[0].ends_with('$')).then(|| {
            format!("`{key}` in [variants.{name}] has `{{{word}}}`: did you mean `{{{meant}}}`?")
        })
    })
}

/// How it comes to run: exactly one of the keys that say so.
fn target_of(
    mut reader: Reader<'_>,
    name: &str,
    whole: &toml::Table,
    files: Option<&Path>,
) -> Option<Target> {
    let (serve, stack) = (reader.table("serve"), reader.table("stack"));
    let argv = reader.words("command");
    if let Some(Located { value, offset }) = &argv {
        let complain = |why| reader.mistakes().add(*offset, why);
        value.iter().filter_map(|text| misspelt("command", name, text)).for_each(complain);
    }
    let argv = argv.map(|found| found.value);
    let env_offset = reader.offset_of("env");
    let env = reader.strings("env");
    for (_, text) in env.iter().flatten() {
        if let Some(why) = misspelt("env", name, text) {
            reader.mistakes().add(env_offset, why);
        }
    }
    let ready = reader.text("ready");
    let url = reader.text("url");
    let (mistakes, offset) = (reader.mistakes(), reader.offset());
    let (source, port) = containers::source(&mut reader, name, files);
    let container = source.map(|source| Container {
        source,
        port,
        command: argv.clone().unwrap_or_default(),
        env: env.clone().unwrap_or_default(),
        ready: ready.as_ref().map(|found| found.value.clone()),
    });
    let sources = containers::KEYS.iter().filter(|key| reader.has(key)).count();
    let has_command = reader.has("command");
    // Beside an image, a command has its arguments.
    let commands = usize::from(has_command && sources == 0);
    // `serve` has the settings of the nodes of a `stack`.
    let is_served = serve.is_some() || stack.is_some();
    let others = usize::from(is_served) + usize::from(reader.has("url"));
    if sources + commands + others != 1 || (has_command && others > 0) {
        let message = format!(
            "[variants.{name}] needs exactly one of `serve`, `command`, `image`, `build`, `compose` and `url`"
        );
        mistakes.add(offset, message);
    }
    if let Some(container) = &container {
        containers::check(&reader, name, container);
    }
    let is_started = has_command || container.is_some();
    for (key, written) in [("env", env.is_some()), ("ready", ready.is_some())] {
        if written && !is_started {
            let message =
                format!("`{key}` in [variants.{name}] belongs to a `command` or a container");
            mistakes.add(offset, message);
        }
    }
    let has_port = argv.iter().flatten().chain(env.iter().flatten().map(|(_, text)| text));
    let has_port = has_port.into_iter().any(|text| text.contains("{port}"));
    if commands == 1 && ready.is_none() && !has_port {
        let message = format!(
            "[variants.{name}] needs `{{port}}` in its `command`, replaced by the port to listen on, or `ready`, an \
             address that answers when the server is ready"
        );
        mistakes.add(offset, message);
    }
    let addresses = [("ready", &ready), ("url", &url)];
    for (key, found) in addresses.iter().filter_map(|(key, found)| Some((key, found.as_ref()?))) {
        check_address(&reader, name, key, found);
    }
    reader.not_yet(&VARIANT_NOT_YET);
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
        (_, Some(argv), _) => {
            let ready = ready.map(|found| found.value);
            Some(Target::Command { argv, env: env.unwrap_or_default(), ready })
        }
        (.., Some(url)) => Some(Target::Url(url.value.trim_end_matches('/').to_owned())),
        _ => None,
    }
}
