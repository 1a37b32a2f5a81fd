//! Modules that scripts import by URL, fetched once into a directory beside them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use base16ct::lower::encode_string as hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::ScriptError;
use super::source::{self, Import, Sources};
use super::syntax::{self, Language};
use crate::http::{Client, ClientConfig, Network, Proxies, Request, Url, block_on};

const DIRECTORY: &str = "madang-vendor";

/// File in that directory that lists the modules.
const LOCK: &str = "lock.json";

/// Size limit of one module.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Time limit of one module.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Limits of all modules of one script together.
#[derive(Clone, Copy)]
struct Limits {
    /// Modules are kept in memory until the last one is there.
    bytes: usize,
    time: Duration,
}

const LIMITS: Limits = Limits { bytes: 256 * 1024 * 1024, time: Duration::from_secs(600) };

/// Modules of one script, at most: a server could generate them endlessly.
const MAX_MODULES: usize = 1000;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Lock {
    /// By address.
    modules: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    /// Name of the file beside the lock file.
    file: String,
    /// Digest of its bytes, in hexadecimal.
    sha256: String,
}

#[derive(Debug)]
pub(super) struct Vendored {
    directory: PathBuf,
    lock: Lock,
}

impl Vendored {
    /// Finds those beside the script or in the nearest directory above that has any.
    pub(super) fn find(script: &Path) -> Result<Option<Self>, ScriptError> {
        let above = script.ancestors().skip(1).map(|directory| directory.join(DIRECTORY));
        let Some(directory) = above.into_iter().find(|one| one.join(LOCK).is_file()) else {
            return Ok(None);
        };
        let wrong = |reason: String| {
            let file = directory.join(LOCK);
            ScriptError::Read(format!("{} cannot be used: {reason}", file.display()))
        };
        let text = std::fs::read(directory.join(LOCK)).map_err(|error| wrong(error.to_string()))?;
        let lock: Lock = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        Ok(Some(Self { lock, directory }))
    }

    /// The file of a module, and its expected digest.
    pub(super) fn file(&self, url: &str) -> Option<(PathBuf, &str)> {
        let entry = self.lock.modules.get(url)?;
        // Only files of the directory itself, whatever the lock file contains.
        let name = Path::new(&entry.file).file_name()?;
        Some((self.directory.join(name), &entry.sha256))
    }
}

/// SHA-256 in hexadecimal.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Fetches the modules that `script` imports by URL, directly or not, into the directory beside it, and calls
/// `on_fetched` with the address and size in bytes of each. Returns the lock file, or `None` if there is nothing to
/// fetch.
///
/// # Errors
/// If a file cannot be read or written, or a module cannot be fetched.
pub fn vendor(
    script: &Path,
    on_fetched: impl FnMut(&str, usize),
) -> Result<Option<PathBuf>, VendorError> {
    vendor_within(LIMITS, script, on_fetched)
}

fn vendor_within(
    limits: Limits,
    script: &Path,
    mut on_fetched: impl FnMut(&str, usize),
) -> Result<Option<PathBuf>, VendorError> {
    let begin = Instant::now();
    let mut total = 0;
    let script = std::path::absolute(script).map_err(vendor_error)?;
    let script = source::normalize(&script);
    let sources = Sources::default();
    let mut fetched: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut left = vec![source::module_name(&script)];
    while let Some(name) = left.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let specifiers = if let Some(path) = name.strip_prefix("file://") {
            let source = sources.read(Path::new(path)).map_err(vendor_error)?;
            source.syntax.specifiers.clone()
        } else {
            if fetched.len() >= MAX_MODULES {
                return Err(VendorError(format!("more than {MAX_MODULES} modules are imported")));
            }
            let left = limits.time.saturating_sub(begin.elapsed());
            if left.is_zero() {
                let seconds = limits.time.as_secs();
                let message = format!("the modules could not be fetched within {seconds} s");
                return Err(VendorError(message));
            }
            let bytes = block_on(fetch(&name, left.min(TIMEOUT))).map_err(vendor_error)??;
            total += bytes.len();
            if total > limits.bytes {
                let limit = limits.bytes >> 20;
                return Err(VendorError(format!("the modules are larger than {limit} MiB")));
            }
            on_fetched(&name, bytes.len());
            let text = String::from_utf8_lossy(&bytes).into_owned();
            fetched.insert(name.clone(), bytes);
            let language = Language::from_path(Path::new(&file_name(&name)));
            syntax::read(text, language, &name).map_err(vendor_error)?.0.specifiers
        };
        for specifier in specifiers {
            match source::resolve(&name, &specifier) {
                Ok(import @ (Import::File(_) | Import::Url(_))) => left.push(import.name()),
                // An unusable import may stand in code that never runs. If it does run, the run reports it.
                Ok(Import::BuiltIn(_)) | Err(_) => {}
            }
        }
    }
    if fetched.is_empty() {
        return Ok(None);
    }
    write(&script, fetched).map(Some)
}

/// Error of fetching modules.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct VendorError(String);

fn vendor_error(error: impl std::fmt::Display) -> VendorError {
    VendorError(error.to_string())
}

async fn fetch(url: &str, timeout: Duration) -> Result<Vec<u8>, VendorError> {
    let failed =
        |reason: &dyn std::fmt::Display| VendorError(format!("cannot fetch {url}: {reason}"));
    let address = Url::parse(url).map_err(|error| failed(&error))?;
    let user_agent = concat!("madang-load/", env!("CARGO_PKG_VERSION")).to_owned();
    let proxies = Proxies::from_environment(|name| std::env::var(name).ok());
    let config = ClientConfig { user_agent, proxies, ..ClientConfig::default() };
    let client = Client::new(Rc::new(Network::new(config, |_, _| ())));
    let request = Request {
        method: "GET".into(),
        url: Rc::new(address),
        headers: Vec::new(),
        body: None,
        timeout,
        max_redirects: 10,
        discard_body: false,
        cookies: Vec::new(),
        jar: Rc::default(),
        sent_cookies: OnceCell::new(),
    };
    let exchange = client.send(&request, |_| ()).await;
    let answer = exchange.outcome.map_err(|error| failed(&error))?;
    if answer.head.status != 200 {
        return Err(failed(&format_args!("the answer is {}", answer.head.status)));
    }
    if answer.body.len() > MAX_BYTES {
        return Err(failed(&format_args!("it is larger than {} MiB", MAX_BYTES >> 20)));
    }
    if std::str::from_utf8(&answer.body).is_err() {
        return Err(failed(&"it is no text"));
    }
    Ok(answer.body)
}

/// Writes the modules and adds them to the lock file, which keeps its other entries.
fn write(script: &Path, fetched: BTreeMap<String, Vec<u8>>) -> Result<PathBuf, VendorError> {
    let known = Vendored::find(script).map_err(vendor_error)?;
    let beside = script.parent().unwrap_or(Path::new("/")).join(DIRECTORY);
    let Vendored { directory, mut lock } =
        known.unwrap_or_else(|| Vendored { directory: beside, lock: Lock::default() });
    let failed = |path: &Path, error: std::io::Error| {
        VendorError(format!("cannot write {}: {error}", path.display()))
    };
    std::fs::create_dir_all(&directory).map_err(|error| failed(&directory, error))?;
    for (url, bytes) in fetched {
        let entry = Entry { file: file_name(&url), sha256: digest(&bytes) };
        let path = directory.join(&entry.file);
        std::fs::write(&path, bytes).map_err(|error| failed(&path, error))?;
        lock.modules.insert(url, entry);
    }
    let path = directory.join(LOCK);
    let text = serde_json::to_string_pretty(&lock).map_err(vendor_error)?;
    std::fs::write(&path, text + "\n").map_err(|error| failed(&path, error))?;
    Ok(path)
}

/// A descriptive name, different for each address.
fn file_name(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let last = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    let last: String = last.chars().map(plain).take(60).collect();
    format!("{}-{last}", &digest(url.as_bytes())[..12])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_plain_and_differ_where_addresses_do() {
        let name = file_name("https://x.example/a/b c.js?v=1");
        assert!(name.ends_with("-b_c.js") && name.len() == 12 + 7, "{name}");
        assert_ne!(name, file_name("https://x.example/a/b c.js?v=2"));
        assert!(!file_name("https://x.example/../").contains('/'));
    }

    #[test]
    fn the_lock_file_leads_to_no_other_directory() {
        let dir = tempfile::tempdir().unwrap();
        let vendor = dir.path().join(DIRECTORY);
        std::fs::create_dir(&vendor).unwrap();
        let lock = r#"{"modules":{"https://a/b.js":{"file":"../../etc/passwd","sha256":"00"}}}"#;
        std::fs::write(vendor.join(LOCK), lock).unwrap();
        let deep = dir.path().join("x/y/script.js");
        let vendored = Vendored::find(&deep).unwrap().unwrap();
        assert_eq!(vendored.file("https://a/b.js").unwrap().0, vendor.join("passwd"));
        assert!(vendored.file("https://a/c.js").is_none());
        std::fs::write(vendor.join(LOCK), "{").unwrap();
        assert!(Vendored::find(&deep).unwrap_err().to_string().contains("lock.json"));
    }

    /// A server whose modules each import another one, and a script that imports the first.
    fn endless() -> (tempfile::TempDir, PathBuf) {
        use std::io::{BufRead as _, BufReader, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let mut stream = stream.unwrap();
                let head = BufReader::new(stream.try_clone().unwrap()).lines();
                head.map(Result::unwrap).take_while(|line| !line.is_empty()).for_each(drop);
                let body = format!("import './{}.js';{}", number + 1, " ".repeat(1024 * 1024));
                let length = body.len();
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script.js");
        std::fs::write(&script, format!("import 'http://{address}/0.js';")).unwrap();
        (directory, script)
    }

    #[test]
    fn modules_without_end_are_not_kept_without_end() {
        let (_directory, script) = endless();
        let vendor = |bytes, time| {
            let mut kept = 0;
            let limits = Limits { bytes, time };
            let error = vendor_within(limits, &script, |_, bytes| kept += bytes).unwrap_err();
            (error.to_string(), kept >> 20)
        };
        let mebibytes = 1024 * 1024;
        let (error, kept) = vendor(3 * mebibytes, LIMITS.time);
        assert_eq!((error.as_str(), kept), ("the modules are larger than 3 MiB", 2));
        let (error, kept) = vendor(LIMITS.bytes, Duration::ZERO);
        assert_eq!((error.as_str(), kept), ("the modules could not be fetched within 0 s", 0));
    }
}
