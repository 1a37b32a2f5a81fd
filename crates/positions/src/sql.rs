//! The outbox in MariaDB, at READ COMMITTED. What the statements rest on is tried on a real server
//! (`outbox.rs` among the tests of the command).

/// Tables. What an insert locks for reading is a table of its own: reserving and renewing, which the same node
/// does meanwhile, must not wait for its open transactions.
pub const SCHEMA: [&str; 3] = [
    "CREATE TABLE outbox_epochs (
       lane TINYINT UNSIGNED PRIMARY KEY,
       epoch BIGINT UNSIGNED NOT NULL
     ) ENGINE = InnoDB",
    "CREATE TABLE outbox_lanes (
       lane TINYINT UNSIGNED PRIMARY KEY,
       reserved BIGINT UNSIGNED NOT NULL,
       deleted BIGINT UNSIGNED NOT NULL,
       leased_until TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
     ) ENGINE = InnoDB",
    "CREATE TABLE outbox (
       lane TINYINT UNSIGNED,
       number BIGINT UNSIGNED,
       effects MEDIUMBLOB NOT NULL,
       made_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
       PRIMARY KEY (lane, number)
     ) ENGINE = InnoDB",
];

/// The last statement of a transaction: number, effects, lane, epoch. No row is changed when the lane is another
/// node's now; error 1062 when the number has a row. Either way the transaction is to be rolled back.
pub const INSERT: &str = "INSERT INTO outbox (lane, number, effects)
     SELECT lane, ?, ? FROM outbox_epochs WHERE lane = ? AND epoch = ? LOCK IN SHARE MODE";

/// Gives a number an empty row: number, lane, number. It waits for an open transaction with that number. Error
/// 1062 when there is a row, and no row changed when there was one: then it has been deleted since.
pub const FILL: &str = "INSERT INTO outbox (lane, number, effects)
     SELECT lane, ?, '' FROM outbox_lanes WHERE lane = ? AND deleted < ? LOCK IN SHARE MODE";

/// Makes the lane this node's, once no transaction of its predecessor with a row is open: epoch, lane. The epoch is
/// drawn at random: after a failover that has forgotten a claim, the next must not look like it.
pub const CLAIM: &str = "UPDATE outbox_epochs SET epoch = ? WHERE lane = ?";

/// Reserves numbers: up to where, lane.
pub const RESERVE: &str = "UPDATE outbox_lanes SET reserved = GREATEST(reserved, ?) WHERE lane = ?";
