//! The schema on a server: its versions, and the requirements of the server.

use super::Session;
use crate::store::sql::params;
use crate::store::{Result, StoreError, backup, copy};
use std::path::Path;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    /// Every statement can be repeated: on a server each change of a table commits by itself, and an interrupted
    /// migration begins again.
    pub(crate) file: &'static str,
    /// The oldest version whose programs can run beside it. A step that only adds tables, or columns with a default,
    /// keeps that of the step before. Any other step names its own version, and is refused while older programs run.
    goes_with: usize,
    /// Version of the embedded schema with the same tables and columns, for copies into a file.
    pub(crate) as_file: usize,
}

/// Each upgrades the schema from version `index` to `index + 1`.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { file: include_str!("migrations/0001_all.sql"), goes_with: 1, as_file: 10 },
    // Older programs do not publish their writes.
    Migration { file: include_str!("migrations/0002_cluster.sql"), goes_with: 2, as_file: 10 },
    Migration { file: include_str!("migrations/0003_identity.sql"), goes_with: 2, as_file: 10 },
    Migration { file: include_str!("migrations/0004_history.sql"), goes_with: 2, as_file: 10 },
    Migration { file: include_str!("migrations/0005_shared.sql"), goes_with: 2, as_file: 10 },
    // Texts that older programs write would not be found.
    Migration { file: include_str!("migrations/0006_search.sql"), goes_with: 6, as_file: 11 },
    // Log-ins of older programs work, but are in no list of sessions.
    Migration { file: include_str!("migrations/0007_sessions.sql"), goes_with: 6, as_file: 12 },
];

/// Files whose `INSERT` statements fill tables of the first version with constants.
const CONSTANTS: [&str; 3] = [
    include_str!("../sqlite/migrations/0002_accounts.sql"),
    include_str!("../sqlite/migrations/0003_schedules.sql"),
    include_str!("../sqlite/migrations/0007_posts.sql"),
];

/// Table with the version of the schema: one row.
const META: &str = "CREATE TABLE IF NOT EXISTS madang_schema (
  only_row TINYINT PRIMARY KEY CHECK (only_row = 1),
  version  BIGINT NOT NULL
) ENGINE = InnoDB";

/// The oldest server: it has `RETURNING` for inserts and deletes, and `SKIP LOCKED`.
const OLDEST: (u32, u32) = (10, 6);

/// Refuses a server that is not durable, then upgrades the schema. Of several nodes that start at once, one does it
/// and the others wait. Returns the identity of the database.
///
/// The delay of acknowledgements must be the same on all nodes: a node that accepts polls older than the delay of
/// another would serve data older than an acknowledged write.
///
/// `keep` backs up a database with an older schema. Its arguments are that schema version and the version of the
/// embedded schema with the same tables.
pub(super) fn prepare(
    session: &Session,
    dir: &Path,
    delay: Duration,
    keep: impl FnOnce(usize, usize) -> Result<()>,
) -> Result<i64> {
    look_at_server(session)?;
    exclusively(session, || {
        copy::refuse_unfinished(session)?;
        migrate(session, |version, is_begun| {
            if is_begun && backup::backup_of_schema(dir, version).exists() {
                return Ok(());
            }
            keep(version, MIGRATIONS[version - 1].as_file)
        })
        .map_err(|error| way_back(error, dir))?;
        agree(session, delay)
    })?;
    identity(session)?
        .ok_or_else(|| StoreError::Corrupt("the row of madang_cluster is missing".to_owned()))
}

/// Runs work that one process may do at a time.
pub(crate) fn exclusively<T, E: From<StoreError>>(
    session: &Session,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let lock = "SELECT GET_LOCK(CONCAT('madang.schema.', DATABASE()), 60)";
    if session.number(lock)? != Some(1) {
        return Err(StoreError::Other(
            "another node has been changing the schema for a minute".to_owned(),
        )
        .into());
    }
    let done = work();
    session.batch("DO RELEASE_LOCK(CONCAT('madang.schema.', DATABASE()))")?;
    done
}

/// Random number of the database; a replica has that of its primary.
pub(super) fn identity(session: &Session) -> Result<Option<i64>> {
    session.number("SELECT identity FROM madang_cluster")
}

/// Adds the path of the backup that an upgrade kept to the refusal of a newer database.
fn way_back(error: StoreError, dir: &Path) -> StoreError {
    let backup = backup::backup_of_schema(dir, MIGRATIONS.len());
    match error {
        StoreError::Foreign(text) if backup.exists() => StoreError::Foreign(format!(
            "{text}. {} is the database as it was before the upgrade: to go back, without what was written since, \
             restore it into a new directory and `madang copy` that into an empty database",
            backup.display()
        )),
        other => other,
    }
}

/// Upgrades the schema to the newest version. Before the upgrade of an existing store, `before` gets its version, and
/// whether a step to the next one was interrupted.
pub(crate) fn migrate(
    session: &Session,
    before: impl FnOnce(usize, bool) -> Result<()>,
) -> Result<()> {
    migrate_to(session, MIGRATIONS.len(), before)
}

/// Upgrades the schema to this version.
pub(super) fn migrate_to(
    session: &Session,
    last: usize,
    before: impl FnOnce(usize, bool) -> Result<()>,
) -> Result<()> {
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE()";
    if !session.has_table("madang_schema")? && session.number(tables)? != Some(0) {
        return Err(StoreError::Foreign("the database belongs to another program".to_owned()));
    }
    session.batch(META)?;
    session.batch(META_ADDED)?;
    session.batch("INSERT IGNORE INTO madang_schema (only_row, version) VALUES (1, 0)")?;
    let row = session.query("SELECT version, oldest, begun FROM madang_schema", &[])?;
    let column = |at| row.first().and_then(|row| row.get::<usize, _>(at)).unwrap_or(usize::MAX);
    let (version, oldest, begun) = (column(0), column(1), column(2));
    let known = MIGRATIONS.len();
    if version > known {
        // A newer program was here, and has noted which others can run beside it.
        if oldest > 0 && oldest <= known {
            return Ok(());
        }
        return Err(StoreError::Foreign(format!(
            "the database has schema version {version}, this program knows up to {known}; use a newer program"
        )));
    }
    let pending = &MIGRATIONS[version..last.max(version)];
    refuse_beside_older(session, version, pending)?;
    if version > 0 && !pending.is_empty() {
        before(version, begun > version)?;
    }
    for (done, migration) in pending.iter().enumerate().map(|(at, one)| (version + at, one)) {
        session.batch(&format!("UPDATE madang_schema SET begun = {}", done + 1))?;
        for statement in statements(migration.file) {
            session.batch(&created(&statement))?;
        }
        if done == 0 {
            for insert in CONSTANTS.iter().copied().flat_map(statements) {
                if let Some(values) = insert.strip_prefix("INSERT INTO ") {
                    session.batch(&format!("INSERT IGNORE INTO {values}"))?;
                }
            }
        }
        if done == 1 {
            outbox(session)?;
        }
        let goes_with = migration.goes_with;
        session.batch(&format!(
            "UPDATE madang_schema SET version = {}, oldest = GREATEST(oldest, {goes_with})",
            done + 1
        ))?;
    }
    // A database that was made before programs noted it.
    let oldest = MIGRATIONS[..last].iter().map(|one| one.goes_with).max().unwrap_or(0);
    session.batch(&format!("UPDATE madang_schema SET oldest = {oldest} WHERE oldest = 0"))
}

/// The oldest version whose programs may serve the database, and the version to which the last step goes: above the
/// database's version if the step was interrupted.
const META_ADDED: &str =
    "ALTER TABLE madang_schema ADD COLUMN IF NOT EXISTS oldest BIGINT NOT NULL DEFAULT 0,
     ADD COLUMN IF NOT EXISTS begun BIGINT NOT NULL DEFAULT 0";

/// Refuses steps that running nodes do not support.
fn refuse_beside_older(session: &Session, version: usize, pending: &[Migration]) -> Result<()> {
    let needed = pending.iter().map(|one| one.goes_with).max().unwrap_or(0);
    // Older versions have no lanes, which show the nodes.
    if needed <= version || version < 2 && !session.has_table("outbox_lanes")? {
        return Ok(());
    }
    session.batch(PROGRAM_OF_LANE)?;
    let older = "SELECT count(*), COALESCE(min(program), 0) FROM outbox_lanes
         WHERE leased_until > NOW(6) AND program < ?";
    let rows = session.query(older, params![needed as i64])?;
    let column = |at| rows.first().and_then(|row| row.get::<i64, _>(at)).unwrap_or(0);
    let (nodes, program) = (column(0), column(1));
    if nodes == 0 {
        return Ok(());
    }
    Err(StoreError::CannotOpen(format!(
        "this program brings the database to schema version {}, which programs of version {program} do not go with, \
         and {nodes} nodes of such programs run: stop them first (a node counts for 30 s after it has ended)",
        version + pending.len()
    )))
}

/// Schema version of the program of a lane's node; 0 of older programs that do not note it.
const PROGRAM_OF_LANE: &str =
    "ALTER TABLE outbox_lanes ADD COLUMN IF NOT EXISTS program BIGINT NOT NULL DEFAULT 0";

/// The tables of the outbox, with a row for each lane.
fn outbox(session: &Session) -> Result<()> {
    for table in madang_positions::sql::SCHEMA {
        session.batch(&table.replacen("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1))?;
    }
    for lane in 0..madang_positions::LANES {
        session
            .batch(&format!("INSERT IGNORE INTO outbox_epochs (lane, epoch) VALUES ({lane}, 0)"))?;
        session.batch(&format!(
            "INSERT IGNORE INTO outbox_lanes (lane, reserved, deleted) VALUES ({lane}, 0, 0)"
        ))?;
    }
    Ok(())
}

/// Refuses a node with another delay than that of the others.
fn agree(session: &Session, delay: Duration) -> Result<()> {
    let millis = delay.as_millis();
    session.batch(&format!(
        "INSERT IGNORE INTO madang_cluster (only_row, delay_ms) VALUES (1, {millis})"
    ))?;
    let random = fastrand::i64(1..=i64::MAX);
    session.batch(&format!("UPDATE madang_cluster SET identity = {random} WHERE identity = 0"))?;
    let agreed = session.number("SELECT delay_ms FROM madang_cluster")?.unwrap_or(-1);
    if u128::try_from(agreed).is_ok_and(|agreed| agreed == millis) {
        return Ok(());
    }
    Err(StoreError::CannotOpen(format!(
        "cluster.delay is {millis}ms here and {agreed}ms in the database: it must be the same on all nodes. \
         To change it, stop all nodes and run: UPDATE madang_cluster SET delay_ms = {millis}"
    )))
}

/// Adds options that would otherwise come from the server's configuration.
fn created(statement: &str) -> String {
    if statement.starts_with("CREATE TABLE") {
        format!("{statement} ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin")
    } else {
        statement.to_owned()
    }
}

/// The statements of a file, which end with a `;` at the end of a line, without comments.
fn statements(file: &str) -> Vec<String> {
    let lines: String = file
        .lines()
        .map(|line| line.split_once("--").map_or(line, |(before, _)| before).trim_end())
        .filter(|line| !line.is_empty())
        .flat_map(|line| [line, "\n"])
        .collect();
    let statements = lines.split(";\n").map(str::trim).filter(|one| !one.is_empty());
    statements.map(str::to_owned).collect()
}

/// Schema version of the database, if it has one, and of this program.
pub(crate) fn versions(session: &Session) -> Result<(Option<i64>, usize)> {
    let found = match session.has_table("madang_schema")? {
        true => session.number("SELECT version FROM madang_schema")?,
        false => None,
    };
    Ok((found, MIGRATIONS.len()))
}

/// Refuses a server that is too old, read-only or not durable. Returns its version.
pub(crate) fn look_at_server(session: &Session) -> Result<String> {
    let rows = session.query(
        "SELECT @@version, @@read_only + 0, @@innodb_flush_log_at_trx_commit + 0, @@log_bin + 0, @@sync_binlog + 0",
        &[],
    )?;
    let row = rows
        .first()
        .ok_or_else(|| StoreError::Other("the server does not say what it is".to_owned()))?;
    let version: String = row.get(0).unwrap_or_default();
    let number = |at: usize| row.get::<i64, _>(at).unwrap_or(-1);
    let refused = |text: String| Err(StoreError::CannotOpen(text));
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if !version.contains("MariaDB") || found < OLDEST {
        let (major, minor) = OLDEST;
        return refused(format!(
            "the server is {version}; MariaDB {major}.{minor} or newer is needed"
        ));
    }
    if number(1) != 0 {
        return refused("the server is read-only: database.url must name the primary".to_owned());
    }
    if number(2) != 1 {
        return refused(
            "the server may lose acknowledged commits: set innodb_flush_log_at_trx_commit = 1"
                .to_owned(),
        );
    }
    if number(3) != 0 && number(4) != 1 {
        return refused("the server may lose acknowledged commits: set sync_binlog = 1".to_owned());
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_cut_into_statements_without_comments() {
        let file = "-- one; two\nCREATE TABLE a (\n  b INT -- ; c\n);\n\nINSERT INTO a VALUES\n  ('x;y');\n";
        assert_eq!(
            statements(file),
            ["CREATE TABLE a (\n  b INT\n)", "INSERT INTO a VALUES\n  ('x;y')"]
        );
    }

    #[test]
    fn the_constants_are_inserts_of_five_tables() {
        let all: Vec<_> = CONSTANTS.iter().copied().flat_map(statements).collect();
        let tables = all.iter().filter_map(|one| one.strip_prefix("INSERT INTO "));
        let tables: Vec<_> = tables.filter_map(|one| one.split(' ').next()).collect();
        assert_eq!(tables, ["regions", "region_names", "locations", "post_categories"]);
    }
}
