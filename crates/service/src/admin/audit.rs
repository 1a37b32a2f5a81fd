//! The audit log, `admin.log` in the data directory.
//!
//! A line of JSON is written and synced before a command is carried out, and another one with its outcome before the
//! reply. So nothing is done without a record, even if the server is killed: such a command has no outcome.
//!
//! **Not a table.** A table would share the transaction of a deletion. But it could not record commands without a
//! transaction, would take no line while the database is unavailable or full, which is when operators act, and would go
//! back in time with a restored backup. The price is the second line.
//!
//! **Limits.** Each node has its own. At [`LONGEST`] bytes the file becomes `admin.log.1` and replaces the one
//! before: about 30,000 commands are kept. Users who can write to the data directory can change it.

use super::Command;
use crate::http::rfc3339::now_utc;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

const FILE: &str = "admin.log";
const BEFORE: &str = "admin.log.1";
/// Size in bytes at which a new file begins.
const LONGEST: u64 = 8 << 20;
const MODE: u32 = 0o600;

/// The process at the other end of the socket, as reported by the system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) uid: u32,
    /// `None` if the system does not report it.
    pub(super) pid: Option<i32>,
}

/// A line of the file: the begin or the end of a command.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    time: String,
    /// Equal in both lines of a command.
    id: String,
    #[serde(flatten)]
    says: Says,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Says {
    Begin { uid: u32, user: String, pid: Option<i32>, command: String },
    End { outcome: String },
}

/// A command in the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time of its begin, RFC 3339.
    pub time: String,
    /// Name and number of the user.
    pub who: String,
    /// As it was typed.
    pub command: String,
    /// `done`, or the failure. `None` while it runs, and if the server ended before it.
    pub outcome: Option<String>,
}

/// The file of a running server. All methods block the thread.
#[derive(Debug)]
pub(super) struct Audit {
    dir: PathBuf,
    /// Held while a line is written.
    turn: Mutex<()>,
}

impl Audit {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), turn: Mutex::default() }
    }

    /// Logs a command before it runs. Returns the id for [`end`](Self::end).
    pub(super) fn begin(&self, peer: Peer, command: &Command) -> io::Result<String> {
        let id = format!("{:016x}", fastrand::u64(..));
        let Peer { uid, pid } = peer;
        let user = name_of(uid).unwrap_or_default();
        self.append(&id, Says::Begin { uid, user, pid, command: command.to_string() })?;
        Ok(id)
    }

    pub(super) fn end(&self, id: &str, outcome: &str) -> io::Result<()> {
        self.append(id, Says::End { outcome: outcome.to_owned() })
    }

    fn append(&self, id: &str, says: Says) -> io::Result<()> {
        let time = now_utc();
        let mut line = serde_json::to_string(&Line { time, id: id.to_owned(), says })?;
        line.push('\n');
        let _turn = self.turn.lock();
        let path = self.dir.join(FILE);
        let is_full = std::fs::metadata(&path).is_ok_and(|found| found.len() >= LONGEST);
        if is_full {
            std::fs::rename(&path, self.dir.join(BEFORE))?;
        }
        let is_new = !path.exists();
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).mode(MODE).open(&path)?;
        if ends_within_a_line(&mut file)? {
            // A failed write, or a crash, has left a part of a line, which must not take this one in.
            line.insert(0, '\n');
        }
        file.write_all(line.as_bytes())?;
        file.sync_all()?;
        if is_new {
            File::open(&self.dir)?.sync_all()?;
        }
        Ok(())
    }
}

fn ends_within_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// The last `count` commands for the servers of a data directory, the oldest first. Needs no server.
///
/// # Errors
/// The file exists and cannot be read.
pub fn last(dir: &Path, count: usize) -> io::Result<Vec<Entry>> {
    let mut found: Vec<(String, Entry)> = Vec::new();
    for name in [BEFORE, FILE] {
        let text = match std::fs::read(dir.join(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            read => read?,
        };
        // Partial lines are skipped.
        let lines = text.split(|byte| *byte == b'\n');
        for Line { time, id, says } in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
            match says {
                Says::Begin { uid, user, command, .. } => {
                    let who = format!("{user}({uid})");
                    found.push((id, Entry { time, who, command, outcome: None }));
                }
                Says::End { outcome } => {
                    // From the end, because few commands run at once.
                    let begun = found.iter_mut().rev().find(|(begun, _)| *begun == id);
                    if let Some((_, entry)) = begun {
                        entry.outcome = Some(outcome);
                    }
                }
            }
        }
    }
    let first = found.len().saturating_sub(count);
    Ok(found.drain(first..).map(|(_, entry)| entry).collect())
}

/// The name of a user in `/etc/passwd`.
fn name_of(uid: u32) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Peer = Peer { uid: 0, pid: Some(7) };

    #[test]
    fn a_command_without_an_outcome_and_half_a_line_are_told_from_others() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(last(dir.path(), 10).unwrap(), []);
        let audit = Audit::new(dir.path());
        let first = audit.begin(PEER, &Command::CacheClear).unwrap();
        audit.begin(PEER, &Command::PostDelete { id: 7 }).unwrap();
        audit.end(&first, "done").unwrap();
        let path = dir.path().join(FILE);
        let mut text = std::fs::read(&path).unwrap();
        text.extend(b"{\"time\":\"20");
        std::fs::write(&path, text).unwrap();
        let third = audit.begin(PEER, &Command::MaintenanceOff).unwrap();
        audit.end(&third, "failed: no space").unwrap();
        let found = last(dir.path(), 10).unwrap();
        let found: Vec<_> =
            found.iter().map(|one| (one.command.as_str(), one.outcome.as_deref())).collect();
        let third = ("maintenance off", Some("failed: no space"));
        assert_eq!(found, [("cache clear", Some("done")), ("post delete 7", None), third]);
        assert_eq!(last(dir.path(), 1).unwrap()[0].command, "maintenance off");
        assert_eq!(last(dir.path(), 1).unwrap()[0].who, "root(0)");
    }

    #[test]
    fn a_long_file_makes_room_and_the_one_before_is_still_read() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::new(dir.path());
        let id = audit.begin(PEER, &Command::CacheClear).unwrap();
        let path = dir.path().join(FILE);
        let file = OpenOptions::new().append(true).open(&path).unwrap();
        file.set_len(LONGEST).unwrap();
        audit.end(&id, "done").unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < 1000);
        assert_eq!(last(dir.path(), 10).unwrap()[0].outcome.as_deref(), Some("done"));
    }
}
