//! Used proofs of work in the database that nodes share.

use super::AccountStore;
use crate::store::{Result, StoreError, params};
use madang_guard::limit::{Answer, ProofStore, StoreError as GuardError};

/// Expired proofs deleted with each used proof.
const SWEPT_AT_ONCE: i64 = 16;

/// Store of nodes that share a database but no `guard.url`.
pub(super) struct SqlProofs(pub(super) AccountStore);

impl ProofStore for SqlProofs {
    fn use_up(&self, proof: u64, expires: u64, now: u64) -> Answer<'_, Result<bool, GuardError>> {
        Answer::Later(Box::pin(async move {
            self.0.use_proof(proof.cast_signed(), date(expires), date(now)).await.map_err(failed)
        }))
    }

    fn give_back(&self, proof: u64) -> Answer<'static, Result<(), GuardError>> {
        let store = self.0.clone();
        Answer::Later(Box::pin(async move {
            store.give_proof_back(proof.cast_signed()).await.map_err(failed)
        }))
    }
}

impl AccountStore {
    /// Returns true at the first use.
    async fn use_proof(&self, proof: i64, expires: i64, now: i64) -> Result<bool> {
        let write = self.store.write(move |tx| {
            let sweep = "DELETE FROM used_proofs WHERE expires < ? ORDER BY expires LIMIT ?";
            // A minute after expiry: clocks of nodes differ.
            tx.run(sweep, params![now - 60, SWEPT_AT_ONCE])?;
            let insert = "INSERT INTO used_proofs (proof, expires) VALUES (?, ?)";
            Ok::<_, StoreError>(tx.insert_new(insert, params![proof, expires])?.is_some())
        });
        write.await
    }

    async fn give_proof_back(&self, proof: i64) -> Result<()> {
        let delete = "DELETE FROM used_proofs WHERE proof = ?";
        self.store.write(move |tx| tx.run(delete, params![proof]).map(drop)).await
    }
}

fn date(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

fn failed(error: StoreError) -> GuardError {
    GuardError(error.into())
}
