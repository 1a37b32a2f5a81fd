//! Digests of the files that a run depends on, so that a resumed run does not mix two builds: the script and the files
//! that its init code imports and opens, the programs of `command` variants and of `generator`, the files among their
//! arguments, and those of `[data]`. Digests of container images are in the description itself.
//!
//! Libraries and modules that these load, images of compose files, hooks, and servers of a `url` are not covered.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use madang_stack::container::Engine;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::file::experiment::{Container, ContainerSource, Experiment, Target};
use crate::plan::Plan;
use crate::round::host::Host;

/// Longer files are compared by length and time: reading them would take longer than a round.
const MOST_BYTES: u64 = 256 << 20;
const CHUNK_BYTES: usize = 64 << 10;
/// Path of execvp(3) without `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A file at the start of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptFile {
    path: String,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    /// Hexadecimal.
    Sha256(String),
    /// For a file that is too long, or unreadable.
    Stamp {
        bytes: u64,
        /// Seconds since 1970, with nine digits after the point.
        modified: String,
    },
}

/// Reads the current files, each once.
pub(crate) fn read(experiment: &Experiment, plan: &Plan, host: &dyn Host) -> Vec<KeptFile> {
    let dir = &experiment.dir;
    let mut paths: BTreeSet<PathBuf> = BTreeSet::new();
    for variant in &plan.variants {
        if let Target::Container(Container { source: ContainerSource::Compose(path), .. }) =
            &variant.target
        {
            paths.extend(Engine::compose_file(&dir.join(path)));
        }
        let Target::Command { argv, env, .. } = &variant.target else { continue };
        let Some((name, args)) = argv.split_first() else { continue };
        paths.extend(program(name, env, dir));
        // `FILE`, and `--flag=FILE`.
        let texts = args.iter().flat_map(|arg| {
            [Some(arg.as_str()), arg.split_once('=').map(|(_, value)| value)].into_iter().flatten()
        });
        paths.extend(texts.filter(|text| is_fixed(text)).map(|text| dir.join(text)));
    }
    let generator = &experiment.load.generator;
    paths.extend(generator.first().and_then(|name| program(name, &[], dir)));
    paths.extend(generator.iter().skip(1).filter(|text| is_fixed(text)).map(|text| dir.join(text)));
    paths.extend(host.data_files(&experiment.data, dir));
    paths.insert(experiment.load.script.clone());
    paths.extend(experiment.sources.script_files.iter().cloned());
    let kept = |path: PathBuf| {
        let content = Content::read(&path).ok()??;
        Some(KeptFile { path: path.to_string_lossy().into_owned(), content })
    };
    paths.into_iter().filter_map(kept).collect()
}

/// Names of files that changed or disappeared. New ones are ignored: a server may write to a file among its arguments.
pub(crate) fn changed(then: &[KeptFile], now: &[KeptFile]) -> Vec<String> {
    let others = then.iter().filter(|file| !now.contains(file));
    let in_words = |file: &KeptFile| match Path::new(&file.path).exists() {
        true => format!("`{}`", file.path),
        false => format!("`{}` (now missing)", file.path),
    };
    others.map(in_words).collect()
}

impl Content {
    /// `None` unless it is a regular file.
    fn read(path: &Path) -> io::Result<Option<Self>> {
        let found = fs::metadata(path)?;
        if !found.is_file() {
            return Ok(None);
        }
        if found.len() <= MOST_BYTES
            && let Ok(sum) = sha256(path)
        {
            return Ok(Some(Self::Sha256(sum)));
        }
        let modified = found.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let modified = format!("{}.{:09}", modified.as_secs(), modified.subsec_nanos());
        Ok(Some(Self::Stamp { bytes: found.len(), modified }))
    }
}

fn sha256(path: &Path) -> io::Result<String> {
    // The file may grow meanwhile.
    let mut file = File::open(path)?.take(MOST_BYTES);
    let (mut hasher, mut chunk) = (Sha256::new(), vec![0; CHUNK_BYTES]);
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            read => hasher.update(&chunk[..read]),
        }
    }
    Ok(base16ct::lower::encode_string(&hasher.finalize()))
}

fn is_fixed(text: &str) -> bool {
    !text.is_empty() && !text.contains("{port}") && !text.contains("{dir}")
}

/// Finds the file that execvp(3) would execute.
pub(crate) fn program(name: &str, env: &[(String, String)], dir: &Path) -> Option<PathBuf> {
    if !is_fixed(name) {
        return None;
    }
    if name.contains('/') {
        return Some(dir.join(name));
    }
    let own = env.iter().rev().find(|(key, _)| key == "PATH").map(|(_, path)| OsString::from(path));
    let path = own.or_else(|| env::var_os("PATH")).unwrap_or_else(|| DEFAULT_PATH.into());
    env::split_paths(&path).map(|entry| dir.join(entry).join(name)).find(|path| is_program(path))
}

pub(crate) fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_where_it_would_be_executed() {
        let dir = tempfile::tempdir().unwrap();
        for place in ["first", "second"] {
            fs::create_dir(dir.path().join(place)).unwrap();
            fs::write(dir.path().join(place).join("server"), place).unwrap();
        }
        let second = dir.path().join("second/server");
        fs::set_permissions(&second, fs::Permissions::from_mode(0o755)).unwrap();
        let env = [("PATH".to_owned(), "first:second".to_owned())];
        // The first cannot be executed.
        assert_eq!(program("server", &env, dir.path()), Some(second.clone()));
        assert_eq!(
            program("./second/server", &[], dir.path()),
            Some(dir.path().join("./second/server"))
        );
        assert_eq!(program("{dir}/server", &env, dir.path()), None);
    }

    /// "abc" is the first example of FIPS 180-2, appendix B.1.
    #[test]
    fn contents_are_told_apart_by_their_sum_and_long_files_by_length_and_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "abc").unwrap();
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Content::read(&path).unwrap(), Some(Content::Sha256(sum.to_owned())));
        // Without a block on the disk.
        File::options().write(true).open(&path).unwrap().set_len(MOST_BYTES + 1).unwrap();
        let long = Content::read(&path).unwrap();
        assert!(matches!(long, Some(Content::Stamp { bytes, .. }) if bytes == MOST_BYTES + 1));
        assert_eq!(Content::read(dir.path()).unwrap(), None);
    }
}
