//! The files of one round.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{Bench, Slot};
use crate::{
    copy::{self, CopyError},
    experiment::Variant,
    record::{Failure, FailureKind},
};

/// The files of one round.
pub struct Files {
    scratch: PathBuf,
    pub data: PathBuf,
    pub report: PathBuf,
    /// Says when the measured window begins.
    pub started: PathBuf,
    pub server_log: PathBuf,
    pub load_log: PathBuf,
}

impl Files {
    pub fn new(bench: &Bench<'_>, slot: Slot, variant: &Variant) -> Result<Self, Failure> {
        let scratch = bench.work.join("round");
        let data = scratch.join("data");
        let broken = |what: &str, error: io::Error| {
            Failure::new(FailureKind::Machine, format!("cannot {what}: {error}"))
        };
        remove(&scratch)
            .and_then(|()| fs::create_dir_all(&data))
            .map_err(|error| broken(&format!("empty `{}`", scratch.display()), error))?;
        if let Some(template) = bench.template {
            copy::tree(template, &data, bench.cancel).map_err(|error| match error {
                CopyError::Cancelled => {
                    Failure::new(FailureKind::Interrupted, "the run was interrupted")
                }
                CopyError::Io { path, source } => {
                    broken(&format!("copy the data: `{}`", path.display()), source)
                }
            })?;
        }
        let Slot { block, attempt, .. } = slot;
        let log = |who| bench.logs.join(format!("{block}-{attempt}-{}.{who}.log", variant.name));
        Ok(Self {
            report: scratch.join("load.json"),
            started: scratch.join("started"),
            scratch,
            data,
            server_log: log("server"),
            load_log: log("load"),
        })
    }

    /// After a good round: nothing of it is needed any more.
    pub fn discard(&self) -> io::Result<()> {
        remove(&self.scratch)?;
        remove(&self.server_log)?;
        remove(&self.load_log)
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
