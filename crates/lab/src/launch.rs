//! From a variant to something that answers.

use std::{fs, io, path::Path};

use madang_stack::{CpuList, Output, PortReservation, Process, Spec, http::Url};

use crate::{
    experiment::{Experiment, Target, Variant},
    host::{Host, HostError, Launch, Ready},
};

/// A variant that is up.
pub struct Running {
    /// `None` for a `url`.
    pub process: Option<Process>,
    /// What the script gets as `BASE_URL`: no slash at the end.
    pub base_url: String,
}

/// Where one round keeps its files.
pub struct RoundDirs<'d> {
    /// A fresh copy of the data.
    pub data: &'d Path,
    /// Where the server's stderr goes.
    pub log: &'d Path,
}

/// Why a variant did not come up.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The host has no command for it.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Its process could not be started or did not get ready.
    #[error(transparent)]
    Process(#[from] madang_stack::Error),
    /// A file or port.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// What it calls its address is none.
    #[error("it became ready at no address: {0}")]
    Address(String),
}

/// Starts a variant and waits until it is ready.
pub fn launch(
    experiment: &Experiment,
    variant: &Variant,
    host: &dyn Host,
    dirs: &RoundDirs<'_>,
    cpus: Option<&CpuList>,
) -> Result<Running, LaunchError> {
    let launch = match &variant.target {
        Target::Url(url) => {
            return Ok(Running { process: None, base_url: url.clone() });
        }
        Target::Serve(settings) => host.serve(settings, dirs.data)?,
        Target::Command { argv, env, ready } => command(experiment, argv, env, ready, dirs.data)?,
    };
    let stdout = match launch.ready {
        Ready::Line(_) => Output::Capture,
        Ready::Http { .. } => Output::File(dirs.log.to_owned()),
    };
    let mut spec = launch.spec.stdout(stdout).stderr(Output::File(dirs.log.to_owned()));
    if let Some(cpus) = cpus {
        spec = spec.cpus(cpus.clone());
    }
    let process = host.supervisor().spawn(&spec)?;
    let limit = experiment.rounds.start_limit;
    let base_url = match launch.ready {
        Ready::Line(prefix) => process.ready_line(&prefix, limit)?,
        Ready::Http { url, base_url } => {
            process.ready_http(&url, limit)?;
            base_url
        }
    };
    Url::parse(&base_url).map_err(LaunchError::Address)?;
    let base_url = base_url.trim_end_matches('/').to_owned();
    Ok(Running { process: Some(process), base_url })
}

fn command(
    experiment: &Experiment,
    argv: &[String],
    env: &[(String, String)],
    ready: &str,
    data: &Path,
) -> Result<Launch, LaunchError> {
    // Freed before the command starts, as a program may not set SO_REUSEADDR.
    let reservation = PortReservation::new()
        .map_err(|source| LaunchError::Io { what: "no free port", source })?;
    let port = reservation.port().to_string();
    let dir = data.to_string_lossy();
    let fill = |text: &str| text.replace("{port}", &port).replace("{dir}", &dir);
    let mut spec = Spec::new(fill(&argv[0])).dir(&experiment.dir);
    spec = spec.args(argv[1..].iter().map(|arg| fill(arg)));
    for (name, value) in env {
        spec = spec.env(name, fill(value));
    }
    let ready = fill(ready);
    let url = Url::parse(&ready).map_err(LaunchError::Address)?;
    let base_url = origin(&ready).to_owned();
    Ok(Launch { spec, ready: Ready::Http { url, base_url } })
}

/// `http://host:port` of an address.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    &url[..end]
}

/// Copies a directory tree: files, directories and symbolic links. Sockets and the like are no
/// data and are left out.
pub fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_tree(&source, &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else if kind.is_file() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_ends_before_the_path() {
        assert_eq!(origin("http://127.0.0.1:80/health?x"), "http://127.0.0.1:80");
        assert_eq!(origin("http://localhost:1"), "http://localhost:1");
    }

    #[test]
    fn a_copied_tree_is_the_same_and_separate() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("deep/er")).unwrap();
        fs::write(from.join("deep/er/file"), "one").unwrap();
        std::os::unix::fs::symlink("deep/er/file", from.join("link")).unwrap();
        copy_tree(&from, &to).unwrap();
        fs::write(from.join("deep/er/file"), "two").unwrap();
        assert_eq!(fs::read_to_string(to.join("link")).unwrap(), "one");
    }
}
