//! Accounts: register, log in, log out, who am I, change the password, delete the account.
//!
//! What was weak in the documented system: an honest hash starved everything else, so it was made 64
//! times cheaper; a limiter that counted addresses alone let a hundred guesses a minute through and
//! locked out a café; an unknown name was told apart from a wrong password. Here the hash stays honest
//! and costs nobody but those who wait for one (`hashing.rs`), attempts are limited by account, address
//! and both together (crate `guard`), and both kinds of failure are one answer at one price.
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
mod session;
mod sessions;
mod store;
mod token;
mod types;

#[cfg(test)]
mod tests;

pub(crate) use caller::bearer;
pub use caller::{Caller, MaybeCaller};
pub(crate) use key::FILE as KEY_FILE;
pub use key::{KeyError, TokenKey};
pub(crate) use operator::{Named, nickname_start};
pub(crate) use quota::OwnedRows;
pub use quota::Quota;
pub use regions::{LONGEST as LONGEST_REGION, RegionError, RegionId, RegionRow, Regions};
pub use store::{AccountStore, Credentials, NewUser, User};
pub(crate) use store::{exists, stays};
pub use token::{Claims, TokenError, TokenId, Tokens};

use crate::config::Settings;
use crate::ops::openapi::Api;
use crate::store::{Result, Store, StoreError};
use madang_guard::Guard;
use madang_guard::hash::{HashPool, StartError};
pub(crate) use revoked::{Change, Cutoff, Revoked};
use std::sync::Arc;
use tokio::sync::Semaphore;
use utoipa_axum::routes;

/// Identifier of a user, never reused.
pub type UserId = i64;

/// Routes of accounts.
pub(crate) fn router() -> Api {
    Api::new()
        .routes(routes!(register::register))
        .routes(routes!(login::login))
        .routes(routes!(session::logout))
        .routes(routes!(session::me))
        .routes(routes!(export::export))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::end))
        .routes(routes!(change::change_password))
        .routes(routes!(change::log_out_everywhere))
        .routes(routes!(change::delete_account))
}

/// The system: its store, its key, its guard and the threads that hash. Cheap to clone.
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

/// Why accounts could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no key to sign with.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The hashing threads do not start.
    #[error(transparent)]
    Hash(#[from] StartError),
    /// The guard refuses its settings.
    #[error(transparent)]
    Guard(#[from] madang_guard::BuildError),
    /// The shared store of the guard cannot be used as it is configured.
    #[error("guard.url: {0}")]
    GuardStore(#[from] madang_guard::limit::StoreError),
}

impl Accounts {
    /// Accounts in `store`. Makes the token key if there is none. Blocks the thread.
    pub fn open(store: Store, settings: &Settings) -> Result<Self, AccountsError> {
        let shared = store.clone();
        let store = AccountStore::new(store);
        // Known before it is read: what another node revokes meanwhile is applied on top.
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
    /// When another one is used there, or the store cannot answer.
    pub fn agree_on_key(&self) -> Result<()> {
        self.inner.store.agree_on_key(self.derived_key("madang key of a database 1"))
    }

    /// The store of accounts.
    pub fn store(&self) -> &AccountStore {
        &self.inner.store
    }

    /// A key for something that has nothing to do with accounts: made of the token key, so that nodes that
    /// share that one share it.
    pub(crate) fn derived_key(&self, purpose: &str) -> [u8; 32] {
        self.inner.key.derive(purpose)
    }

    /// All regions.
    pub fn regions(&self) -> &Regions {
        &self.inner.regions
    }

    /// Where passwords are hashed.
    pub fn hasher(&self) -> &HashPool {
        &self.inner.hasher
    }

    /// What limits attempts.
    pub fn guard(&self) -> &Guard {
        &self.inner.guard
    }

    /// Revocations remembered now.
    pub fn revocations(&self) -> usize {
        self.inner.revoked.len()
    }

    /// What a token says, if it is valid now and was not revoked.
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
