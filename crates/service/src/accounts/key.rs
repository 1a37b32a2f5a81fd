//! The key that signs tokens: a file in the data directory, or a setting.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Name of the key file in the data directory.
pub(crate) const FILE: &str = "token.key";

/// Shortest key in bytes: the length of the hash (RFC 2104, 3; RFC 7518, 3.2).
const SHORTEST: usize = 32;

/// A key of 32 bytes or more, which does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenKey(Vec<u8>);

crate::opaque_debug!(TokenKey);

/// Error of reading or making the key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or made.
    #[error("{}: {reason}", path.display())]
    File {
        /// The key file.
        path: PathBuf,
        /// The system's reason.
        reason: std::io::Error,
    },
    /// Other users may read or write the file.
    #[error(
        "{}: mode {mode:o} lets others read or change the key that signs every token. \
         If nobody else can have read it, run `chmod 600` on it; otherwise delete it to generate a new one \
         (all users must then log in again). If the platform requires this mode, set accounts.token_key instead",
        path.display()
    )]
    Exposed {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file holds no key.
    #[error(
        "{}: not a key (32 bytes or more as hex or Base64). Restore the file, or delete it \
         to generate a new one (all users must then log in again)",
        path.display()
    )]
    Damaged {
        /// The key file.
        path: PathBuf,
    },
    /// The operating system gives no random bytes.
    #[error("no random bytes for a token key: {0}")]
    Random(#[from] getrandom::Error),
}

impl TokenKey {
    /// Reads the key of a setting or a file: hex or Base64 (either alphabet, padding optional) of 32 to 1,024 bytes.
    /// Text that is both is read as hex.
    pub fn parse(text: &str) -> Option<TokenKey> {
        let text = text.trim();
        if text.len() > 2048 {
            return None;
        }
        let bytes = base16ct::mixed::decode_vec(text).ok().or_else(|| {
            let text = text.trim_end_matches('=');
            let padded = format!("{text}{}", &"==="[..(4 - text.len() % 4) % 4]);
            STANDARD.decode(&padded).or_else(|_| URL_SAFE.decode(&padded)).ok()
        })?;
        (bytes.len() >= SHORTEST).then_some(TokenKey(bytes))
    }

    /// Reads the key in `dir`, or makes one. The caller holds the lock of the directory.
    pub(crate) fn of_directory(dir: &Path) -> Result<TokenKey, KeyError> {
        let path = dir.join(FILE);
        let fail = |reason| KeyError::File { path: path.clone(), reason };
        match File::open(&path) {
            Ok(file) => read(file, &path),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut bytes = vec![0; SHORTEST];
                getrandom::fill(&mut bytes)?;
                match write(dir, &bytes) {
                    Ok(()) => {}
                    // A full disk must not prevent serving reads.
                    Err(error) if has_no_room(&error) => tracing::warn!(
                        %error,
                        "cannot store the key that signs tokens; all users must log in again after the next start"
                    ),
                    Err(error) => return Err(fail(error)),
                }
                Ok(TokenKey(bytes))
            }
            Err(error) => Err(fail(error)),
        }
    }

    #[cfg(test)]
    pub(super) fn from_bytes(bytes: Vec<u8>) -> TokenKey {
        TokenKey(bytes)
    }

    /// A key for another purpose, which reveals nothing of this one: HMAC as a key derivation function (NIST
    /// SP 800-108r1, 4.1, one block).
    pub(super) fn derive(&self, purpose: &str) -> [u8; 32] {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.chain_update(purpose).finalize().into_bytes().into()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

fn read(file: File, path: &Path) -> Result<TokenKey, KeyError> {
    let fail = |reason| KeyError::File { path: path.to_owned(), reason };
    // The mode of the opened file: the name may refer to another file a moment later.
    let mode = file.metadata().map_err(fail)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed { path: path.to_owned(), mode });
    }
    let mut bytes = Vec::new();
    file.take(4096).read_to_end(&mut bytes).map_err(fail)?;
    let text = std::str::from_utf8(&bytes).ok();
    text.and_then(TokenKey::parse).ok_or_else(|| KeyError::Damaged { path: path.to_owned() })
}

/// Writes the key so that a crash leaves a whole key or none, and syncs it before any token is signed with it.
fn write(dir: &Path, key: &[u8]) -> std::io::Result<()> {
    let text = crate::hex(key);
    let draft = dir.join(format!("{FILE}.new"));
    // One left by a crash may be truncated, and have another mode.
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&draft, dir.join(FILE))?;
    File::open(dir)?.sync_all()
}

fn has_no_room(error: &std::io::Error) -> bool {
    use ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// An empty directory and the path of its key.
    fn directory() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        (dir, path)
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_key_is_made_once_and_only_its_owner_can_read_it() {
        let (dir, path) = directory();
        let key = TokenKey::of_directory(dir.path()).unwrap();
        assert!(TokenKey::of_directory(dir.path()).unwrap() == key, "the same one again");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no draft is left");
        let (other, _) = directory();
        assert!(TokenKey::of_directory(other.path()).unwrap() != key);
    }

    #[test]
    fn a_draft_that_a_crash_left_is_no_key() {
        let (dir, _) = directory();
        std::fs::write(dir.path().join("token.key.new"), "00").unwrap();
        let key = TokenKey::of_directory(dir.path()).unwrap();
        assert_eq!(key.bytes().len(), 32);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_key_that_others_can_read_is_refused_and_kept() {
        for mode in [0o640, 0o604, 0o620, 0o602, 0o644, 0o666, 0o610] {
            let (dir, path) = directory();
            TokenKey::of_directory(dir.path()).unwrap();
            set_mode(&path, mode);
            let error = TokenKey::of_directory(dir.path()).unwrap_err();
            assert!(matches!(error, KeyError::Exposed { .. }), "{mode:o}: {error}");
            assert!(error.to_string().contains(&format!("{mode:o}")), "{error}");
            assert!(path.exists());
        }
    }

    #[test]
    fn a_damaged_key_is_refused_and_not_quoted() {
        for text in ["", "\n", "abcd", "not a key, however long it may be written here", "\u{0}"] {
            let (dir, path) = directory();
            std::fs::write(&path, text).unwrap();
            set_mode(&path, 0o600);
            let error = TokenKey::of_directory(dir.path()).unwrap_err();
            assert!(matches!(error, KeyError::Damaged { .. }), "{text:?}: {error}");
            assert!(!error.to_string().contains("however"), "{error}");
        }
    }

    #[test]
    fn keys_are_hex_or_base64_of_32_bytes_or_more() {
        let bytes: Vec<u8> = (0..34).map(|i| 255 - i * 7).collect();
        let hex: String = bytes.iter().map(|b| format!("{b:02X}")).collect();
        let standard = STANDARD.encode(&bytes);
        let url = URL_SAFE.encode(&bytes);
        for text in [&hex, &standard, &url, standard.trim_end_matches('='), &format!(" {hex}\n")] {
            assert_eq!(TokenKey::parse(text).map(|key| key.0), Some(bytes.clone()), "{text}");
        }
        let (short, long) = (hex[..62].to_owned(), "ab".repeat(2000));
        for text in
            ["", "secret", &short, &long, &STANDARD.encode([1; 31]), "한글한글한글한글한글한글"]
        {
            assert_eq!(TokenKey::parse(text), None, "{text}");
        }
        assert_eq!(format!("{:?}", TokenKey(bytes)), "TokenKey(hidden)");
    }
}
