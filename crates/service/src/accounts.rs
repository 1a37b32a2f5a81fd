//! Accounts: register, log in, log out, who am I, change the password, delete the account.
//!
//! Weaknesses of the documented system: a strong hash starved everything else, so it was made 64
//! times cheaper; a limiter that counted addresses alone admitted a hundred guesses a minute and
//! locked out a café; an unknown name was distinguishable from a wrong password. Here the hash stays strong
//! and delays only the clients that wait for one (`hashing.rs`), attempts are limited by account, address
//! and both together (crate `guard`), and both kinds of failure have one response at one cost.
//!
//! Order on log-in: body cap → limiter → look-up → bounded hash pool → token.

mod attempt;
mod caller;
mod change;
mod export;
mod hashing;
mod key;
mod login;
mod metrics;
mod operator;
mod proofs;
mod quota;
mod regions;
mod register;
mod revoked;
mod sessions;
mod store;
mod token;
mod types;

#[cfg(test)]
mod tests;

pub use caller::Caller;
pub(crate) use caller::{MaybeCaller, bearer};
pub(crate) use key::FILE as KEY_FILE;
pub use key::{KeyError, TokenKey};
pub(crate) use operator::{Named, nickname_start};
pub(crate) use quota::{OwnedRows, Quota};
pub(crate) use regions::LONGEST as LONGEST_REGION;
pub use regions::{RegionError, RegionId, RegionRow, Regions};
pub(crate) use revoked::{Change, Cutoff, Revoked};
pub use store::{AccountStore, Credentials, NewUser};
pub(crate) use store::{User, exists, stays};
pub use token::{Claims, TokenError, TokenId, Tokens};

use crate::config::Settings;
use crate::ops::openapi::Api;
use crate::store::{Result, Store, StoreError};
use madang_guard::Guard;
use madang_guard::hash::{HashPool, StartError};
use std::sync::Arc;
use tokio::sync::Semaphore;
use utoipa_axum::routes;

/// Identifier of a user, never reused.
pub type UserId = i64;

pub(crate) fn router() -> Api {
    Api::new()
        .routes(routes!(register::register))
        .routes(routes!(login::login))
        .routes(routes!(sessions::logout))
        .routes(routes!(sessions::me))
        .routes(routes!(export::export))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::end))
        .routes(routes!(change::change_password))
        .routes(routes!(change::log_out_everywhere))
        .routes(routes!(change::delete_account))
}

/// The accounts: their store, token key, guard and hashing threads. Cheap to clone.
#[derive(Clone)]
pub struct Accounts {
    inner: Arc<Inner>,
}

crate::opaque_debug!(Accounts);

struct Inner {
    store: AccountStore,
    regions: Regions,
    tokens: Tokens,
    key: TokenKey,
    revoked: Arc<Revoked>,
    hasher: HashPool,
    guard: Guard,
    /// Renewals of old hashes that may run at once.
    renewals: Arc<Semaphore>,
}

/// Error of opening the accounts.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no token key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The hashing threads do not start.
    #[error(transparent)]
    Hash(#[from] StartError),
    /// The guard refuses its settings.
    #[error(transparent)]
    Guard(#[from] madang_guard::BuildError),
    /// The shared store of the guard cannot be used as configured.
    #[error("guard.url: {0}")]
    GuardStore(#[from] madang_guard::limit::StoreError),
}

impl Accounts {
    /// Opens the accounts in `store`, and makes the token key if there is none. Blocks the thread.
    pub(crate) fn open(store: Store, settings: &Settings) -> Result<Self, AccountsError> {
        let shared = store.clone();
        let store = AccountStore::new(store);
        // Registered before it is filled, so that revocations of other nodes meanwhile are not lost.
        let revoked = Arc::new(Revoked::default());
        shared.revoked_in(&revoked);
        let (rows, names, tokens, users) = store.remembered()?;
        revoked.extend(tokens, users);
        let kept = Arc::clone(&revoked);
        shared.reloaded_by(move |store| {
            let (_, _, tokens, users) = AccountStore::new(store).remembered()?;
            kept.extend(tokens, users);
            Ok(())
        });
        let key = match &settings.accounts.token_key {
            Some(key) => key.clone(),
            None => TokenKey::of_directory(&settings.data_dir)?,
        };
        let proofs = shared.is_shared().then(|| proofs::SqlProofs(store.clone()));
        let guard = attempt::guard(&settings.guard, &key, proofs)?;
        let inner = Inner {
            store,
            regions: Regions::new(rows, names),
            tokens: Tokens::new(&key, settings.accounts.token_ttl),
            revoked,
            hasher: hashing::start(&settings.accounts)?,
            guard,
            renewals: Arc::new(Semaphore::new(1)),
            key,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Makes sure that all nodes of a database sign with the same key. Blocks the thread.
    ///
    /// # Errors
    /// Another node signs with another key, or the store does not answer.
    pub fn agree_on_key(&self) -> Result<()> {
        self.inner.store.agree_on_key(self.derived_key("madang key of a database 1"))
    }

    /// The store of accounts.
    pub fn store(&self) -> &AccountStore {
        &self.inner.store
    }

    /// A key for another purpose, derived from the token key: nodes that share the one share the other.
    pub(crate) fn derived_key(&self, purpose: &str) -> [u8; 32] {
        self.inner.key.derive(purpose)
    }

    /// All regions.
    pub fn regions(&self) -> &Regions {
        &self.inner.regions
    }

    pub(crate) fn hasher(&self) -> &HashPool {
        &self.inner.hasher
    }

    pub(crate) fn guard(&self) -> &Guard {
        &self.inner.guard
    }

    /// The claims of a token; `None` if it is not valid now, or revoked.
    pub(crate) fn verify(&self, token: &str) -> Option<Claims> {
        let claims = match self.inner.tokens.verify(token, token::now()) {
            Ok(claims) => claims,
            Err(error) => {
                tracing::debug!(%error, "rejected a token");
                return None;
            }
        };
        (!self.inner.revoked.contains(&claims)).then_some(claims)
    }
}
