//! Outcomes stored with their keys, in the transaction of the create.

use super::{Claim, Done, KEYS_PER_USER, Once, Replayable, now_ms};
use crate::store::{Conn, Result, Sql, Store, StoreError, Tx, params};

impl Once {
    /// Runs `create`, unless an earlier request with the key has made something. Then it returns that outcome.
    ///
    /// ```ignore
    /// store.write(move |tx| once.run(tx, |tx| insert(tx, &new))).await
    /// ```
    ///
    /// # Errors
    /// Those of `create`; [`StoreError::KeyReused`] when another request used the key before. The job must then fail,
    /// so that the transaction is rolled back.
    pub(crate) fn run<T: Replayable, E: From<StoreError>>(
        &self,
        tx: &mut Tx<'_>,
        create: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<Done<T>, E> {
        let Some(claim) = &self.0 else { return create(tx).map(Done::now) };
        let now = now_ms();
        let before = if tx.is_shared() { claim.claim(tx, now)? } else { claim.find(tx, now)? };
        if let Some(outcome) = before {
            return Ok(Done { outcome, replayed: true });
        }
        let outcome = create(tx)?;
        match (outcome.is_made(), tx.is_shared()) {
            (true, true) => claim.fill(tx, &outcome)?,
            (true, false) => claim.keep(tx, &outcome, now)?,
            (false, true) => claim.release(tx)?,
            (false, false) => {}
        }
        Ok(Done::now(outcome))
    }

    /// The outcome of an earlier request, for code that needs it before its transaction.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn find<T: Replayable>(&self, conn: &Conn<'_>) -> Result<Option<T>> {
        self.0.as_ref().map_or(Ok(None), |claim| claim.find(conn, now_ms()))
    }
}

impl Claim {
    fn find<T: Replayable>(&self, conn: &Conn<'_>, now: i64) -> Result<Option<T>> {
        let found = conn.first(
            "SELECT fingerprint, outcome FROM idempotency_keys
             WHERE user_id = ? AND route = ? AND `key` = ? AND expires_at_ms > ?",
            params![self.user, self.route, self.key, now],
            |row| Ok((row.get::<Vec<u8>>(0)?, row.get::<String>(1)?)),
        )?;
        found.map(|(fingerprint, outcome)| self.outcome(&fingerprint, &outcome)).transpose()
    }

    /// The outcome in a row, if it belongs to the same request.
    fn outcome<T: Replayable>(&self, fingerprint: &[u8], outcome: &str) -> Result<T> {
        if fingerprint != self.fingerprint {
            return Err(StoreError::KeyReused);
        }
        serde_json::from_str(outcome).map_err(|e| {
            StoreError::Other(format!("cannot read the outcome stored with a key: {e}"))
        })
    }

    /// On a server, where retries may run at the same time: inserts the row first, for which the others wait. Returns
    /// the outcome of an earlier request.
    fn claim<T: Replayable>(&self, tx: &Tx<'_>, now: i64) -> Result<Option<T>> {
        let insert = "INSERT INTO idempotency_keys (user_id, route, `key`, fingerprint, outcome, expires_at_ms)
             VALUES (?, ?, ?, ?, '', ?)";
        let expires = now.saturating_add(self.keep_ms);
        let values = params![self.user, self.route, self.key, self.fingerprint, expires];
        loop {
            if tx.insert_new(insert, values)?.is_some() {
                return Ok(None);
            }
            let found: Option<(Vec<u8>, String, i64)> = tx.first(
                "SELECT fingerprint, outcome, expires_at_ms FROM idempotency_keys
                 WHERE user_id = ? AND route = ? AND `key` = ? FOR UPDATE",
                params![self.user, self.route, self.key],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )?;
            match found {
                Some((fingerprint, outcome, expires)) if expires > now => {
                    return self.outcome(&fingerprint, &outcome).map(Some);
                }
                // Expired and not swept yet; or deleted meanwhile, because nothing was made.
                Some(_) => self.release(tx)?,
                None => {}
            }
        }
    }

    /// Writes the outcome into the claimed row, and deletes the oldest keys of the user.
    fn fill<T: Replayable>(&self, tx: &Tx<'_>, outcome: &T) -> Result<()> {
        tx.run(
            "UPDATE idempotency_keys SET outcome = ? WHERE user_id = ? AND route = ? AND `key` = ?",
            params![encode(outcome)?, self.user, self.route, self.key],
        )?;
        let oldest: Option<i64> = tx.first(
            "SELECT number FROM idempotency_keys WHERE user_id = ? ORDER BY number DESC LIMIT 1 OFFSET ?",
            params![self.user, KEYS_PER_USER],
            |row| row.get(0),
        )?;
        if let Some(oldest) = oldest {
            let delete = "DELETE FROM idempotency_keys WHERE user_id = ? AND number <= ?";
            tx.run(delete, params![self.user, oldest])?;
        }
        Ok(())
    }

    /// Deletes the claimed row, because nothing was made.
    fn release(&self, tx: &Tx<'_>) -> Result<()> {
        let delete = "DELETE FROM idempotency_keys WHERE user_id = ? AND route = ? AND `key` = ?";
        tx.run(delete, params![self.user, self.route, self.key]).map(drop)
    }

    /// In the embedded store: inserts the row with the outcome, and deletes the oldest keys of the user.
    fn keep<T: Replayable>(&self, conn: &Conn<'_>, outcome: &T, now: i64) -> Result<()> {
        let next = "SELECT coalesce(max(number), 0) + 1 FROM idempotency_keys WHERE user_id = ?";
        let number: i64 = conn.one(next, params![self.user])?;
        // Replaces an expired row of the same key.
        conn.run(
            "INSERT OR REPLACE INTO idempotency_keys
             (user_id, route, key, number, fingerprint, outcome, expires_at_ms)
             VALUES (?, ?, ?, ?, ?, ?, ?)",
            params![
                self.user,
                self.route,
                self.key,
                number,
                self.fingerprint,
                encode(outcome)?,
                now.saturating_add(self.keep_ms)
            ],
        )?;
        conn.run(
            "DELETE FROM idempotency_keys WHERE user_id = ? AND number <= ?",
            params![self.user, number - i64::from(KEYS_PER_USER)],
        )?;
        Ok(())
    }
}

fn encode(outcome: &impl Replayable) -> Result<String> {
    serde_json::to_string(outcome)
        .map_err(|e| StoreError::Other(format!("cannot store an outcome: {e}")))
}

/// Deletes up to so many expired rows in one transaction. Returns the number of deleted rows.
pub(super) async fn sweep(store: &Store, now: i64, rows: u32) -> Result<usize> {
    store.write(move |tx| tx.run(EXPIRED, params![now, rows])).await
}

const EXPIRED: Sql<'_> = Sql::each(
    "DELETE FROM idempotency_keys WHERE (user_id, number) IN
     (SELECT user_id, number FROM idempotency_keys WHERE expires_at_ms <= ? LIMIT ?)",
    "DELETE FROM idempotency_keys WHERE expires_at_ms <= ? LIMIT ?",
);

#[cfg(test)]
mod tests;
