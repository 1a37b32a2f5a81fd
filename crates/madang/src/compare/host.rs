//! What the lab asks of this program: its server, its data, its load generator.

use super::data::Data;
use anyhow::anyhow;
use madang_lab::Cancel;
use madang_lab::host::{Host, HostError, Launch, Page, Ready};
use madang_service::config::{ConfigError, Origin, Sources};
use madang_stack::{Patience, Spec, Supervisor};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// This program as it runs now, even when its file is replaced by a build meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// Filling a store may take this long; the largest bundled one takes seconds.
const PREPARE_LIMIT: Duration = Duration::from_secs(1800);
/// Filling is stopped gently, so that everything is on disk.
const STOP_GRACE: Duration = Duration::from_secs(30);

/// What the lab needs to know about this program.
pub struct Madang;

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
        let said = server.stderr_tail();
        Err(HostError(format!("the server that stored the samples failed ({exit}){said}")))
    }

    /// Runs a command of this program that fills a store.
    fn fill(&self, what: &str, spec: &Spec, give_up: &dyn Fn() -> bool) -> Result<(), HostError> {
        let filling = self.supervisor().spawn(spec).map_err(in_words)?;
        match filling.wait_patiently(Patience::new(PREPARE_LIMIT, give_up)).map_err(in_words)? {
            exit if exit.is_success() => Ok(()),
            exit => Err(HostError(format!("`{what}` failed ({exit}){}", filling.stderr_tail()))),
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

    fn check_serve(&self, settings: &toml::Table) -> Result<(), HostError> {
        let origin = Origin::Flag("--set".to_owned());
        // Where it stands is said by the caller, who knows the variant.
        let in_words = |error: ConfigError| {
            let (text, place) = (error.to_string(), format!("{origin}: "));
            HostError(text.strip_prefix(&place).unwrap_or(&text).to_owned())
        };
        let mut sources = Sources::new();
        let mut seen = BTreeSet::new();
        for (key, value) in flat(settings) {
            sources.set(&key, &value, origin.clone()).map_err(in_words)?;
            if seen.contains(&key) {
                return Err(HostError(format!("`{key}` is given twice")));
            }
            seen.insert(key);
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
        // Before the samples, among which are neighbours of the same names, whom nobody can log in
        // as: they are made up only where there are no users yet.
        if let Some(flags) = data.seed {
            let seed = this_program(template).args(["seed", "--data"]).arg(template);
            self.fill("seed", &seed.args(flags), &give_up)?;
        }
        if data.samples {
            self.fill_with_samples(template, &give_up)?;
        }
        // After them: sample tracks are only for a store without any.
        if !data.tracks.is_empty() {
            let import = this_program(template).args(["import", "tracks", "--data"]).arg(template);
            self.fill("import tracks", &import.arg("--").args(&data.tracks), &give_up)?;
        }
        Ok(())
    }

    fn data_files(&self, data: &toml::Table, dir: &Path) -> Vec<PathBuf> {
        Data::files(data, dir)
    }

    fn serve(
        &self,
        settings: &toml::Table,
        data_dir: &Path,
        address: Option<&str>,
    ) -> Result<Launch, HostError> {
        let mut spec = serve(data_dir, address.unwrap_or(FREE_PORT));
        for (key, value) in flat(settings) {
            spec = spec.args(["--set".to_owned(), format!("{key}={value}")]);
        }
        let metrics = Page::Line { prefix: METRICS.to_owned(), path: "/metrics".to_owned() };
        Ok(Launch { spec, ready: Ready::Line(LISTENING.to_owned()), metrics: Some(metrics) })
    }

    fn database(&self, _settings: &toml::Table, data_dir: &Path) -> Option<String> {
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

/// Line 1 of `serve`'s stdout begins with this.
const LISTENING: &str = "listening ";
/// And line 2 with this.
const METRICS: &str = "metrics ";
const FREE_PORT: &str = "127.0.0.1:0";

/// A server at an address with its data in `dir`.
fn serve(dir: &Path, address: &str) -> Spec {
    this_program(dir).args(["serve", "--listen", address, "--data"]).arg(dir)
}

/// How the variables of server and generator begin: settings, and options that k6 has, too.
const OWN_VARIABLES: [&str; 2] = ["MADANG_", "K6_"];

/// This program without anything of its caller's that would change what it does: a round's
/// settings are those of the experiment, not those of the shell or directory it was started in.
fn this_program(dir: &Path) -> Spec {
    let spec = Spec::new(THIS_PROGRAM).dir(dir);
    OWN_VARIABLES.iter().fold(spec, |spec, prefix| spec.env_remove_prefix(prefix))
}

/// Settings as `--set` has them: dotted keys, strings without their quotes. TOML reads
/// `cache.mode = "off"` without quotes around the key as a table in a table; both ways are meant
/// alike.
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

fn in_words(error: madang_stack::Error) -> HostError {
    HostError(format!("{:#}", anyhow!(error)))
}
