//! Outcomes beside their keys, in the transaction of the create.
#![allow(clippy::disallowed_types, reason = "this is the store of keys: SQL types live here")]

use super::{Claim, Done, KEYS_PER_USER, Once, Outcome, now_ms};
use crate::store::{Store, StoreError, Tx};
use rusqlite::{Connection, OptionalExtension as _, params};

impl Once {
    /// Runs `create`, unless the same request has made something before: then that is its outcome.
    ///
    /// ```ignore
    /// store.write(move |tx| once.run(tx, |tx| insert(tx, &new))).await
    /// ```
    ///
    /// # Errors
    /// Those of `create`; [`StoreError::KeyReused`] when the key came with another request before. The
    /// transaction is to be rolled back then, as a write does whose job fails.
    pub(crate) fn run<T, E>(
        &self,
        tx: &mut Tx<'_>,
        create: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<Done<T>, E>
    where
        T: Outcome,
        E: From<StoreError>,
    {
        let Some(claim) = &self.0 else { return create(tx).map(Done::now) };
        let now = now_ms();
        if let Some(outcome) = claim.find(tx, now)? {
            return Ok(Done { outcome, replayed: true });
        }
        let outcome = create(tx)?;
        if outcome.is_made() {
            claim.keep(tx, &outcome, now)?;
        }
        Ok(Done::now(outcome))
    }

    /// What the same request has made before, for a way that has to look before its transaction.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn find<T: Outcome>(&self, conn: &Connection) -> Result<Option<T>, StoreError> {
        self.0.as_ref().map_or(Ok(None), |claim| claim.find(conn, now_ms()))
    }
}

impl Claim {
    fn find<T: Outcome>(&self, conn: &Connection, now: i64) -> Result<Option<T>, StoreError> {
        let mut find = conn.prepare_cached(
            "SELECT fingerprint, outcome FROM idempotency_keys
             WHERE user_id = ? AND route = ? AND key = ? AND expires_at_ms > ?",
        )?;
        let found: Option<(Vec<u8>, String)> = find
            .query_row(params![self.user, self.route, self.key, now], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((fingerprint, outcome)) = found else { return Ok(None) };
        if fingerprint != self.fingerprint {
            return Err(StoreError::KeyReused);
        }
        serde_json::from_str(&outcome).map(Some).map_err(|e| {
            StoreError::Other(format!("cannot read the outcome stored with a key: {e}"))
        })
    }

    fn keep<T: Outcome>(&self, conn: &Connection, outcome: &T, now: i64) -> Result<(), StoreError> {
        let outcome = serde_json::to_string(outcome)
            .map_err(|e| StoreError::Other(format!("cannot store an outcome: {e}")))?;
        let number: i64 = conn
            .prepare_cached(
                "SELECT coalesce(max(number), 0) + 1 FROM idempotency_keys WHERE user_id = ?",
            )?
            .query_row([self.user], |row| row.get(0))?;
        // Replaces an expired row of the same key that no sweep has found yet.
        conn.prepare_cached(
            "INSERT OR REPLACE INTO idempotency_keys
             (user_id, route, key, number, fingerprint, outcome, expires_at_ms)
             VALUES (?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            self.user,
            self.route,
            self.key,
            number,
            self.fingerprint,
            outcome,
            now.saturating_add(self.keep_ms)
        ])?;
        conn.prepare_cached("DELETE FROM idempotency_keys WHERE user_id = ? AND number <= ?")?
            .execute(params![self.user, number - i64::from(KEYS_PER_USER)])?;
        Ok(())
    }
}

/// Deletes up to so many expired rows, in one transaction; answers how many.
pub(super) async fn sweep(store: &Store, now: i64, rows: u32) -> Result<usize, StoreError> {
    store
        .write(move |tx| {
            let mut delete = tx.prepare_cached(
                "DELETE FROM idempotency_keys WHERE (user_id, number) IN
                 (SELECT user_id, number FROM idempotency_keys WHERE expires_at_ms <= ? LIMIT ?)",
            )?;
            Ok(delete.execute(params![now, rows])?)
        })
        .await
}

#[cfg(test)]
mod tests;
