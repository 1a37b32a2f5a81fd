//! The outbox in MariaDB, at READ COMMITTED. Tests of the command verify it on a real server (`outbox.rs`).

/// Tables. Inserts lock a separate table, so that reservations and renewals do not wait for open transactions.
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

/// The last statement of a transaction: number, effects, lane, epoch. It changes no row if another node has the lane
/// now, and fails with 1062 if the number has a row. Either way the transaction must be rolled back.
pub const INSERT: &str = "INSERT INTO outbox (lane, number, effects)
     SELECT lane, ?, ? FROM outbox_epochs WHERE lane = ? AND epoch = ? LOCK IN SHARE MODE";

/// Inserts an empty row: number, lane, number. It waits for an open transaction with that number, and fails with 1062
/// if there is a row. It changes no row if there was one that has been deleted.
pub const FILL: &str = "INSERT INTO outbox (lane, number, effects)
     SELECT lane, ?, '' FROM outbox_lanes WHERE lane = ? AND deleted < ? LOCK IN SHARE MODE";

/// Claims the lane, once its predecessor has no open transaction with a row: epoch, lane. The epoch is random, so
/// that after a failover that has lost a claim the next one differs.
pub const CLAIM: &str = "UPDATE outbox_epochs SET epoch = ? WHERE lane = ?";

/// Reserves numbers: last number, lane.
pub const RESERVE: &str = "UPDATE outbox_lanes SET reserved = GREATEST(reserved, ?) WHERE lane = ?";
