//! What the protocol asks of a database, asked of the real MariaDB: the primary key decides whose a number is, and
//! nothing is settled by time.

use crate::harness::database::{directory_of_a_server, supervisor};
use madang_positions::sql;
use madang_stack::mariadb::MariaDb;
use madang_testing::until;
use mysql::prelude::Queryable as _;
use mysql::{Conn, Opts, TxOpts};
use std::thread;

const DUPLICATE: u16 = 1062;

struct Outbox {
    server: MariaDb,
    _dir: tempfile::TempDir,
}

impl Outbox {
    fn new() -> Self {
        let dir = directory_of_a_server();
        let outbox = Self { server: MariaDb::start(&supervisor(), dir.path()).unwrap(), _dir: dir };
        let mut session = outbox.session();
        sql::SCHEMA.iter().for_each(|table| session.query_drop(table).unwrap());
        session.query_drop("INSERT INTO outbox_epochs VALUES (0, 1), (1, 1)").unwrap();
        session
            .query_drop(
                "INSERT INTO outbox_lanes (lane, reserved, deleted) VALUES (0, 9, 0), (1, 0, 0)",
            )
            .unwrap();
        outbox
    }

    fn session(&self) -> Conn {
        let mut session = Conn::new(Opts::from_url(&self.server.url()).unwrap()).unwrap();
        session.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").unwrap();
        session
    }

    /// The numbers of lane 0 and what is beside them, as a poll sees them.
    fn rows(&self) -> Vec<(u64, String)> {
        self.session()
            .query("SELECT number, effects FROM outbox WHERE lane = 0 ORDER BY number")
            .unwrap()
    }

    /// Waits until so many transactions wait for the lock of a row. Not by `innodb_trx`: what it shows is only read
    /// anew when nobody has looked for a tenth of a second.
    fn until_waiting(&self, count: u64) {
        let mut session = self.session();
        until("transactions wait for a lock", || {
            let waiting: Option<(String, u64)> = session
                .query_first("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
                .unwrap();
            waiting.is_some_and(|(_, now)| now == count).then_some(())
        });
    }
}

/// What a statement did: rows changed, or the number of its error.
type Done = Result<u64, u16>;

fn done(
    session: &mut impl mysql::prelude::Queryable,
    sql: &str,
    values: impl Into<mysql::Params>,
) -> Done {
    match session.exec_iter(sql, values) {
        Ok(result) => Ok(result.affected_rows()),
        Err(mysql::Error::MySqlError(error)) => Err(error.code),
        Err(error) => panic!("{sql}: {error}"),
    }
}

fn insert(session: &mut impl mysql::prelude::Queryable, number: u64, epoch: u64) -> Done {
    done(session, sql::INSERT, (number, "effects", 0, epoch))
}

fn fill(session: &mut impl mysql::prelude::Queryable, number: u64) -> Done {
    done(session, sql::FILL, (number, 0, number))
}

/// Runs `what` in a session of its own, and `then` once it waits for a lock.
fn waits<T: Send>(
    outbox: &Outbox,
    what: impl FnOnce(&mut Conn) -> T + Send,
    then: impl FnOnce(),
) -> T {
    let mut session = outbox.session();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| what(&mut session));
        outbox.until_waiting(1);
        then();
        waiting.join().unwrap()
    })
}

#[test]
fn an_empty_row_waits_for_the_transaction_and_loses_to_its_commit() {
    let outbox = Outbox::new();
    let mut writer = outbox.session();
    let mut tx = writer.start_transaction(TxOpts::default()).unwrap();
    assert_eq!(insert(&mut tx, 5, 1), Ok(1));
    let filled = waits(&outbox, |session| fill(session, 5), || tx.commit().unwrap());
    assert_eq!(filled, Err(DUPLICATE));
    assert_eq!(outbox.rows(), [(5, "effects".to_owned())]);
}

#[test]
fn an_empty_row_takes_the_number_of_a_transaction_that_is_rolled_back_or_whose_session_ends() {
    let outbox = Outbox::new();
    let mut writer = outbox.session();
    let mut tx = writer.start_transaction(TxOpts::default()).unwrap();
    assert_eq!(insert(&mut tx, 5, 1), Ok(1));
    assert_eq!(waits(&outbox, |session| fill(session, 5), || tx.rollback().unwrap()), Ok(1));

    let mut tx = writer.start_transaction(TxOpts::default()).unwrap();
    assert_eq!(insert(&mut tx, 6, 1), Ok(1));
    let id: u64 = tx.query_first("SELECT CONNECTION_ID()").unwrap().unwrap();
    let end = || outbox.session().query_drop(format!("KILL {id}")).unwrap();
    assert_eq!(waits(&outbox, |session| fill(session, 6), end), Ok(1));
    drop(tx);
    assert_eq!(outbox.rows(), [(5, String::new()), (6, String::new())]);
}

#[test]
fn a_transaction_that_is_idle_for_too_long_does_not_hold_its_number() {
    let outbox = Outbox::new();
    let mut writer = outbox.session();
    writer.query_drop("SET SESSION idle_transaction_timeout = 3").unwrap();
    let mut tx = writer.start_transaction(TxOpts::default()).unwrap();
    assert_eq!(insert(&mut tx, 5, 1), Ok(1));
    assert_eq!(fill(&mut outbox.session(), 5), Ok(1));
    assert!(tx.commit().is_err(), "its session has ended");
    assert_eq!(outbox.rows(), [(5, String::new())]);
}

#[test]
fn a_filled_number_dooms_its_transaction() {
    let outbox = Outbox::new();
    assert_eq!(fill(&mut outbox.session(), 5), Ok(1));
    let mut writer = outbox.session();
    let mut tx = writer.start_transaction(TxOpts::default()).unwrap();
    assert_eq!(insert(&mut tx, 5, 1), Err(DUPLICATE));
    tx.rollback().unwrap();
    assert_eq!(outbox.rows(), [(5, String::new())]);
}

#[test]
fn a_claim_waits_for_open_rows_and_then_nobody_else_inserts_any() {
    let outbox = Outbox::new();
    let (mut writer, mut paused) = (outbox.session(), outbox.session());
    let mut tx = writer.start_transaction(TxOpts::default()).unwrap();
    assert_eq!(insert(&mut tx, 5, 1), Ok(1));
    // Its own node goes on reserving and inserting meanwhile.
    assert_eq!(done(&mut paused, sql::RESERVE, (20, 0)), Ok(1));
    assert_eq!(done(&mut paused, sql::RESERVE, (12, 0)), Ok(0));
    assert_eq!(insert(&mut paused, 4, 1), Ok(1));
    let claimed =
        waits(&outbox, |session| done(session, sql::CLAIM, (2, 0)), || tx.commit().unwrap());
    assert_eq!(claimed, Ok(1));
    assert_eq!(insert(&mut paused, 6, 1), Ok(0));
    let reserved: Option<u64> =
        paused.query_first("SELECT reserved FROM outbox_lanes WHERE lane = 0").unwrap();
    assert_eq!(reserved, Some(20));
    let filled: Vec<Done> = (1..=20).map(|number| fill(&mut paused, number)).collect();
    assert_eq!(filled.iter().filter(|done| **done == Ok(1)).count(), 18);
    assert_eq!([filled[3], filled[4]], [Err(DUPLICATE), Err(DUPLICATE)]);
    assert_eq!(insert(&mut outbox.session(), 21, 2), Ok(1));
}

#[test]
fn what_was_deleted_is_not_filled() {
    let outbox = Outbox::new();
    let mut session = outbox.session();
    for number in 1..=3 {
        assert_eq!(insert(&mut session, number, 1), Ok(1));
    }
    session.query_drop("DELETE FROM outbox WHERE lane = 0 AND number <= 2").unwrap();
    session.query_drop("UPDATE outbox_lanes SET deleted = 2 WHERE lane = 0").unwrap();
    assert_eq!(
        [fill(&mut session, 2), fill(&mut session, 3), fill(&mut session, 4)],
        [Ok(0), Err(DUPLICATE), Ok(1)]
    );
}

#[test]
fn two_who_wait_to_fill_the_same_number_leave_one_row() {
    let outbox = Outbox::new();
    let mut writer = outbox.session();
    let mut tx = writer.start_transaction(TxOpts::default()).unwrap();
    assert_eq!(insert(&mut tx, 5, 1), Ok(1));
    let mut sessions = [outbox.session(), outbox.session()];
    let filled = thread::scope(|scope| {
        let waiting: Vec<_> =
            sessions.iter_mut().map(|session| scope.spawn(|| fill(session, 5))).collect();
        outbox.until_waiting(2);
        tx.rollback().unwrap();
        waiting.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    // The other finds the row, or is the victim of a deadlock and would find it now.
    assert_eq!(filled.iter().filter(|done| **done == Ok(1)).count(), 1, "{filled:?}");
    assert!(filled.iter().all(|done| matches!(done, Ok(1) | Err(DUPLICATE | 1213))), "{filled:?}");
    assert_eq!(outbox.rows(), [(5, String::new())]);
}
