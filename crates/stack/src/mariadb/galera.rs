//! A Galera cluster on one machine.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use crate::{Error, Output, PortReservation, Result, Supervisor};

use super::settings::GALERA;
use super::{LOG, MariaDb, MariaDbSettings, Member, Role, filled, installed, program};

/// Option file of the scripts that copy data.
pub(super) const OPTIONS: &str = "galera.cnf";
/// A server that missed much receives all data; its script first waits ten seconds.
const JOIN_TIME: Duration = Duration::from_secs(120);
/// Time limit for recovering the position of a killed server.
const RECOVER_TIME: Duration = Duration::from_secs(60);
/// Galera's state of a data directory.
const STATE: &str = "data/grastate.dat";
/// Last view of the cluster, with the server's id. Sometimes remains after an orderly stop.
const VIEW: &str = "data/gvwstate.dat";
/// Log line of a server that has caught up.
const SYNCED: &str = "Synchronized with group, ready for connections";

impl MariaDb {
    /// Starts a Galera cluster of `servers` servers, each with its own directory in `dir`, or resumes an existing
    /// one.
    ///
    /// # Errors
    /// As [`start`](Self::start), and [`Error::NotInstalled`] without galera-4, mariadb-backup and socat.
    pub fn galera(
        supervisor: &Supervisor,
        dir: &Path,
        servers: u16,
        settings: &MariaDbSettings,
    ) -> Result<Vec<Self>> {
        galera_installed()?;
        let used = |source| Error::at("cannot use", dir, source);
        let homes: Vec<PathBuf> = (1..=servers).map(|n| dir.join(n.to_string())).collect();
        homes.iter().try_for_each(fs::create_dir_all).map_err(used)?;
        let mut ports = Vec::new();
        for _ in &homes {
            // The receiver of full copies listens on all addresses.
            let data = PortReservation::of_all_addresses();
            let three = [PortReservation::new(), PortReservation::new(), data];
            let three: Result<Vec<_>, _> = three.into_iter().collect();
            ports.push(three.map_err(|source| Error::at("no free port for", dir, source))?);
        }
        let group: Vec<u16> = ports.iter().map(|three| three[0].port()).collect();
        let member = |three: &[PortReservation], begins| {
            let role = Role::Member(Member {
                group: group.clone(),
                port: three[0].port(),
                changes_port: three[1].port(),
                data_port: three[2].port(),
                begins,
            });
            MariaDbSettings { role, ..settings.clone() }
        };
        if !homes[0].join("data").exists() {
            begin(supervisor, &homes, &member(&ports[0], true))?;
        }
        let first = newest(supervisor, &homes, &member(&ports[0], false))?;
        let mut all: Vec<Option<Self>> = homes.iter().map(|_| None).collect();
        // The most advanced server starts first.
        let order = std::iter::once(first).chain((0..homes.len()).filter(|at| *at != first));
        for at in order {
            let three = std::mem::take(&mut ports[at]);
            let settings = member(&three, at == first);
            let home = filled(supervisor, &homes[at], &settings)?;
            write_options(&home)?;
            all[at] = Some(Self::on(supervisor, home, settings, three)?);
        }
        Ok(all.into_iter().flatten().collect())
    }

    /// Whether the server belongs to a cluster.
    pub fn is_member(&self) -> bool {
        matches!(self.settings.role, Role::Member(_))
    }

    pub(super) fn await_group(&self, log: u64) -> Result<()> {
        let is_synced = |_| {
            let mut text = String::new();
            let mut file = fs::File::open(self.dir.join(LOG))?;
            file.seek(SeekFrom::Start(log))?;
            let _ = file.read_to_string(&mut text);
            if text.contains(SYNCED) { Ok(()) } else { Err(io::Error::other("it is not synced")) }
        };
        self.server.process.ready_when("a server in its cluster", JOIN_TIME, is_synced)
    }
}

/// Checks that the programs of a cluster are installed.
///
/// # Errors
/// [`Error::NotInstalled`].
pub fn galera_installed() -> Result<()> {
    installed()?;
    let needed = [
        (GALERA, "galera-4"),
        ("/usr/bin/mariadb-backup", "mariadb-backup"),
        ("/usr/bin/socat", "socat"),
    ];
    needed
        .into_iter()
        .try_for_each(|(program, package)| Error::unless_installed(&[program], program, package))
}

/// Creates the data of all servers as copies of the first, which runs alone once and so knows its cluster. No data
/// have to be transferred when the others join.
fn begin(supervisor: &Supervisor, homes: &[PathBuf], settings: &MariaDbSettings) -> Result<()> {
    let first = filled(supervisor, &homes[0], settings)?;
    write_options(&first)?;
    let server = MariaDb::on(supervisor, first.clone(), settings.clone(), Vec::new())?;
    server.stop()?;
    drop(server);
    for other in &homes[1..] {
        let source = |source| Error::at("cannot fill", other, source);
        copy(&first.join("data"), &other.join("data")).map_err(source)?;
        // It holds the first server's id, which must be unique.
        let _ = fs::remove_file(other.join(VIEW));
    }
    Ok(())
}

/// Index of the most advanced server, which is allowed to bootstrap the cluster.
fn newest(supervisor: &Supervisor, homes: &[PathBuf], settings: &MariaDbSettings) -> Result<usize> {
    let mut best = (0, -1);
    for (at, home) in homes.iter().enumerate().filter(|(_, home)| home.join("data").exists()) {
        write_options(home)?;
        let home = home.canonicalize().map_err(|source| Error::at("cannot use", home, source))?;
        let position = recovered(supervisor, &home, settings)?;
        let number = position.rsplit(':').next().and_then(|number| number.parse().ok());
        if number.unwrap_or(-1) > best.1 {
            best = (at, number.unwrap_or(-1));
        }
    }
    let state = homes[best.0].join(STATE);
    if let Ok(text) = fs::read_to_string(&state) {
        let text = text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1");
        fs::write(&state, text).map_err(|source| Error::at("cannot write", &state, source))?;
    }
    Ok(best.0)
}

/// Argument with the position of a server's data, if it was killed.
pub(super) fn position(
    supervisor: &Supervisor,
    dir: &Path,
    settings: &MariaDbSettings,
) -> Result<Option<String>> {
    let was_killed =
        fs::read_to_string(dir.join(STATE)).is_ok_and(|state| state.contains("seqno:   -1"));
    if !was_killed || !matches!(settings.role, Role::Member(_)) {
        return Ok(None);
    }
    let position = recovered(supervisor, dir, settings)?;
    Ok((!position.is_empty()).then(|| format!("--wsrep-start-position={position}")))
}

/// Position of a server's data, `UUID:NUMBER`; empty if they belong to no cluster.
fn recovered(supervisor: &Supervisor, dir: &Path, settings: &MariaDbSettings) -> Result<String> {
    let log = dir.join("recover.log");
    let _ = fs::remove_file(&log);
    let spec = program(settings)
        .args(["--datadir=.", "--tmpdir=../tmp", "--socket=recover.sock", "--skip-networking"])
        .args(["--pid-file=recover.pid", "--wsrep-recover"])
        .args(settings.arguments())
        .dir(dir.join("data"))
        .stdout(Output::Null)
        .stderr(Output::File(log.clone()));
    supervisor.spawn(&spec)?.wait_patiently(RECOVER_TIME)?;
    let text = fs::read_to_string(&log).map_err(|source| Error::at("cannot read", &log, source))?;
    let found = text.lines().rev().find_map(|line| line.split_once("Recovered position: "));
    Ok(found.map(|(_, position)| position.trim().to_owned()).unwrap_or_default())
}

fn write_options(home: &Path) -> Result<()> {
    // Output of the scripts belongs in the server's own log.
    let text = "[sst]\nsst-syslog=-1\nsst-log-archive=0\n";
    let file = home.join(OPTIONS);
    fs::write(&file, text).map_err(|source| Error::at("cannot write", &file, source))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&source, &target)?;
        } else if entry.file_type()?.is_file() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}
