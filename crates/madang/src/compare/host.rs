//! This program as host of the lab: its server, its data, its load generator.

use super::data::{Data, error};
use anyhow::anyhow;
use madang_lab::Cancel;
use madang_lab::host::{Address, Addresses, Host, HostError, Launch, Page, Ready, Said, Served};
use madang_service::config::{ConfigError, Origin, Sources};
use madang_stack::{Patience, Spec, Supervisor};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The running program, even if a build replaces its file.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// Time limit for filling a store; the largest bundled one takes seconds.
const PREPARE_LIMIT: Duration = Duration::from_secs(1800);
/// Grace period after filling, so that everything is on disk.
const STOP_GRACE: Duration = Duration::from_secs(30);

pub(crate) struct Madang;

impl Madang {
    fn fill_with_samples(
        &self,
        template: &Path,
        give_up: &dyn Fn() -> bool,
    ) -> Result<(), HostError> {
        let server =
            self.supervisor().spawn(&serve(template, FREE_PORT).arg("--demo")).map_err(in_words)?;
        server.ready_line(LISTENING, Patience::new(PREPARE_LIMIT, give_up)).map_err(in_words)?;
        let exit = server.stop(Patience::new(STOP_GRACE, give_up)).map_err(in_words)?;
        if exit.is_success() {
            return Ok(());
        }
        let tail = server.stderr_tail();
        Err(error(format!("the server that stored the samples failed ({exit}){tail}")))
    }

    /// Runs a command of this program that fills a store.
    fn fill(&self, what: &str, spec: &Spec, give_up: &dyn Fn() -> bool) -> Result<(), HostError> {
        let filling = self.supervisor().spawn(spec).map_err(in_words)?;
        match filling.wait_patiently(Patience::new(PREPARE_LIMIT, give_up)).map_err(in_words)? {
            exit if exit.is_success() => Ok(()),
            exit => Err(error(format!("`{what}` failed ({exit}){}", filling.stderr_tail()))),
        }
    }
}

impl Host for Madang {
    fn supervisor(&self) -> Supervisor {
        Supervisor::this_program(["supervise"])
    }

    fn generator(&self) -> Vec<OsString> {
        vec![THIS_PROGRAM.into(), "load".into()]
    }

    fn k6(&self) -> Vec<OsString> {
        vec![THIS_PROGRAM.into(), "k6".into()]
    }

    fn check_serve(&self, served: &Served) -> Result<(), HostError> {
        let settings = &served.settings;
        if let Some(stack) = &served.stack {
            let flags = stack_flags(stack, served)?.into_iter().chain(set_flags(settings));
            return crate::up::check(&flags.collect::<Vec<_>>())
                .map_err(|why| error(format!("{why:#}")));
        }
        let origin = Origin::Flag("--set".to_owned());
        // The caller adds the place, as it knows the variant.
        let in_words = |why: ConfigError| {
            let (text, place) = (why.to_string(), format!("{origin}: "));
            error(text.strip_prefix(&place).unwrap_or(&text))
        };
        let mut sources = Sources::new();
        let mut seen = BTreeSet::new();
        for (key, value) in flat(settings) {
            sources.set(&key, &value, origin.clone()).map_err(in_words)?;
            if !seen.insert(key.clone()) {
                return Err(error(format!("`{key}` is given twice")));
            }
        }
        sources.resolve().map(drop).map_err(in_words)
    }

    fn check_data(&self, data: &toml::Table, dir: &Path) -> Result<(), HostError> {
        Data::read(data, dir).map(drop)
    }

    fn own_variables(&self) -> &[&str] {
        &OWN_VARIABLES
    }

    fn prepare(
        &self,
        data: &toml::Table,
        dir: &Path,
        template: &Path,
        cancel: &Cancel,
    ) -> Result<(), HostError> {
        let data = Data::read(data, dir)?;
        let give_up = || cancel.is_cancelled();
        // Before the samples, whose users have the same names and no known password: those are only
        // added to a store without users.
        if let Some(flags) = data.seed {
            let seed = this_program(template).args(["seed", "--data"]).arg(template);
            self.fill("seed", &seed.args(flags), &give_up)?;
        }
        if data.samples {
            self.fill_with_samples(template, &give_up)?;
        }
        // After the samples, whose tracks are only for a store without any.
        if !data.tracks.is_empty() {
            let import = this_program(template).args(["import", "tracks", "--data"]).arg(template);
            self.fill("import tracks", &import.arg("--").args(&data.tracks), &give_up)?;
        }
        Ok(())
    }

    fn prepare_stack(
        &self,
        served: &Served,
        template: &Path,
        stacks: &Path,
        cancel: &Cancel,
    ) -> Result<Option<PathBuf>, HostError> {
        let Some(stack) = &served.stack else { return Ok(None) };
        let flags: Vec<_> = stack_flags(stack, served)?;
        let layout = crate::up::layout(&flags).map_err(|why| error(format!("{why:#}")))?;
        let has_data = template.join(madang_service::store::FILE).exists();
        let (true, Some((name, flags))) = (has_data, layout) else { return Ok(None) };
        let filled = stacks.join(name);
        if filled.exists() {
            return Ok(Some(filled));
        }
        let give_up = || cancel.is_cancelled();
        let spec = stack_in(&filled, template)?.args(flags);
        let servers = self.supervisor().spawn(&spec).map_err(in_words)?;
        servers.ready_line("", Patience::new(PREPARE_LIMIT, &give_up)).map_err(in_words)?;
        match servers.stop(Patience::new(STOP_GRACE, &give_up)).map_err(in_words)? {
            exit if exit.is_success() => Ok(Some(filled)),
            exit => Err(error(format!("filling a stack failed ({exit})"))),
        }
    }

    fn data_files(&self, data: &toml::Table, dir: &Path) -> Vec<PathBuf> {
        Data::files(data, dir)
    }

    fn serve(
        &self,
        served: &Served,
        data_dir: &Path,
        address: Option<&str>,
    ) -> Result<Launch, HostError> {
        if let Some(stack) = &served.stack {
            if address.is_some() {
                return Err(error(
                    "a stack starts what was killed by itself; the lab does not start it again",
                ));
            }
            let spec = stack_in(data_dir, data_dir)?;
            let flags = stack_flags(stack, served)?.into_iter().chain(set_flags(&served.settings));
            let ready = Ready::Said(read_up_line);
            return Ok(Launch { spec: spec.args(flags), ready, metrics: None });
        }
        let spec = serve(data_dir, address.unwrap_or(FREE_PORT)).args(set_flags(&served.settings));
        let metrics = Page::Line { prefix: METRICS.to_owned(), path: "/metrics".to_owned() };
        Ok(Launch { spec, ready: Ready::Line(LISTENING.to_owned()), metrics: Some(metrics) })
    }

    fn database(&self, served: &Served, data_dir: &Path) -> Option<String> {
        if served.stack.is_some() {
            return None;
        }
        let file = data_dir.join(madang_service::store::FILE);
        Some(format!("sqlite:{}", file.display()))
    }

    fn versions(&self) -> Vec<(String, String)> {
        let mut versions = vec![("madang".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
        // Two builds of one version are two programs.
        let file = std::fs::metadata(THIS_PROGRAM);
        if let Ok((bytes, Ok(built))) = file.map(|file| (file.len(), file.modified())) {
            let built = madang_lab::rfc3339(built);
            versions.push(("madang's file".to_owned(), format!("{bytes} bytes, {built}")));
        }
        versions
    }
}

/// Beginnings of the two lines that `serve` prints.
const LISTENING: &str = "listening ";
const METRICS: &str = "metrics ";
const FREE_PORT: &str = "127.0.0.1:0";

/// A server at an address with its data in `dir`.
fn serve(dir: &Path, address: &str) -> Spec {
    this_program(dir).args(["serve", "--listen", address, "--data"]).arg(dir)
}

/// Prefixes of the variables of server and generator: settings, and options of k6.
const OWN_VARIABLES: [&str; 2] = ["MADANG_", "K6_"];

/// This program in another directory and without its variables: a round's settings are those of the
/// experiment, not of the shell or directory in which it was started.
fn this_program(dir: &Path) -> Spec {
    let spec = Spec::new(THIS_PROGRAM).dir(dir);
    OWN_VARIABLES.iter().fold(spec, |spec, prefix| spec.env_remove_prefix(prefix))
}

/// A stack in `dir`, with the data of `from`, if any, copied unless it has its own.
fn stack_in(dir: &Path, from: &Path) -> Result<Spec, HostError> {
    let broken = |why| error(format!("cannot create `{}`: {why}", dir.display()));
    std::fs::create_dir_all(dir).map_err(broken)?;
    let spec = this_program(dir).args(["up", "--json", "--dir"]).arg(dir.join("stack"));
    let has_data = from.join(madang_service::store::FILE).exists();
    Ok(if has_data { spec.arg("--from").arg(from) } else { spec })
}

/// Flags of `madang up` that a stack may have.
const STACK: [&str; 7] =
    ["nodes", "database", "replicas", "cache", "balance", "profile", "workers"];

fn stack_flags(stack: &toml::Table, served: &Served) -> Result<Vec<String>, HostError> {
    let mut flags: Vec<_> =
        served.node_cpus.iter().map(|cores| format!("--node-cpus={cores}")).collect();
    for (key, value) in stack {
        if !STACK.contains(&key.as_str()) {
            let known = STACK.join(", ");
            return Err(error(format!("`stack` has no `{key}`; it has {known}")));
        }
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        flags.push(format!("--{key}={value}"));
    }
    Ok(flags)
}

fn set_flags(settings: &toml::Table) -> Vec<String> {
    flat(settings).into_iter().map(|(key, value)| format!("--set={key}={value}")).collect()
}

/// Reads the line that `madang up --json` prints.
fn read_up_line(line: &str) -> Result<Said, HostError> {
    let wrong = |why: &dyn std::fmt::Display| error(format!("`madang up` printed no line: {why}"));
    let line: crate::up::Running = serde_json::from_str(line).map_err(|error| wrong(&error))?;
    let cache = line.cache.into_iter().chain(line.counts);
    let databases = Addresses {
        mysql: line
            .database
            .starts_with("mysql:")
            .then(|| Address::new(line.database.split(',').next().unwrap_or_default())),
        redis: cache.map(|url| Address::new(url.split(',').next().unwrap_or_default())).next(),
        nginx: line.nginx.map(Address::new),
    };
    // In a report `mariadb` means all database servers together.
    let name = |name: String| if name == "mariadb" { "primary".to_owned() } else { name };
    let named = |process: crate::up::RunningProcess| Some((name(process.name), process.pid?));
    Ok(Said {
        base_url: line.url,
        metrics: line.nodes.into_iter().map(|node| format!("{}/metrics", node.metrics)).collect(),
        databases,
        processes: line.processes.into_iter().filter_map(named).collect(),
    })
}

/// Settings in the form of `--set`: dotted keys, strings without quotes. TOML reads an unquoted
/// `cache.mode = "off"` as nested tables.
fn flat(settings: &toml::Table) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (key, value) in settings {
        match value {
            toml::Value::Table(inner) if !inner.is_empty() => {
                let inner = flat(inner).into_iter();
                found.extend(inner.map(|(rest, value)| (format!("{key}.{rest}"), value)));
            }
            toml::Value::String(text) => found.push((key.clone(), text.clone())),
            other => found.push((key.clone(), other.to_string())),
        }
    }
    found
}

fn in_words(cause: madang_stack::Error) -> HostError {
    error(format!("{:#}", anyhow!(cause)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_reaches_each_node_and_only_data_that_are_files_are_copied_as_such() {
        let flags = |stack: &str, node_cpus| {
            let served = Served { node_cpus, ..Served::default() };
            stack_flags(&stack.parse().unwrap(), &served).unwrap()
        };
        assert_eq!(flags("nodes = 2", Some(0.5)), ["--node-cpus=0.5", "--nodes=2"]);
        for (stack, layout) in [
            ("nodes = 2", Some("mariadb-0")),
            ("nodes = 1\nreplicas = 1", Some("mariadb-1")),
            ("nodes = 1", None),
            ("database = 'galera:2'", None),
        ] {
            let found = crate::up::layout(&flags(stack, None)).unwrap();
            assert_eq!(found.map(|(name, _)| name).as_deref(), layout, "{stack}");
        }
    }
}
