//! Tokens that were logged out before their time, in memory: asked at every request that carries one.
//!
//! The table in the store is the truth. It is loaded at the start; what a log-out writes there is told
//! to the memory after the commit and before the answer.

use super::UserId;
use super::token::{Claims, TokenId};
use parking_lot::RwLock;
use std::collections::HashMap;

/// Revocations of one user that are kept one by one. One more folds the older half of them into a
/// cutoff: no token issued up to then is valid. So what a user can make the service remember is
/// bounded, and the price is paid by that user: other devices that logged in before the cutoff have
/// to log in again.
pub const MOST_OF_ONE_USER: usize = 64;

/// How long a revocation outlives its token: a clock that is set back by less revives nothing.
pub const MARGIN_SECONDS: i64 = 86_400;

/// No token of a user that was issued up to `until` is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutoff {
    /// The last second of issue that is refused, seconds since 1970.
    pub until: i64,
    /// When the last of the tokens that were revoked by it expires.
    pub expires_at: i64,
}

/// What one log-out changed in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// A token that is revoked now.
    pub added: Option<TokenId>,
    /// A user whose older revocations were folded into a cutoff.
    pub folded: Option<(UserId, Cutoff)>,
    /// Tokens whose rows went: folded, or expired long enough ago.
    pub forgotten: Vec<TokenId>,
    /// Users whose cutoff went.
    pub forgotten_users: Vec<UserId>,
}

/// What is revoked.
#[derive(Debug, Default)]
pub struct Revoked {
    lists: RwLock<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    tokens: std::collections::HashSet<TokenId>,
    users: HashMap<UserId, i64>,
}

impl Revoked {
    /// Takes over what the store holds.
    pub fn extend(
        &self,
        tokens: impl IntoIterator<Item = TokenId>,
        users: impl IntoIterator<Item = (UserId, Cutoff)>,
    ) {
        let mut lists = self.lists.write();
        lists.tokens.extend(tokens);
        for (user, cutoff) in users {
            let until = lists.users.entry(user).or_insert(cutoff.until);
            *until = cutoff.until.max(*until);
        }
    }

    /// Whether the token with these claims was revoked.
    pub fn contains(&self, claims: &Claims) -> bool {
        let lists = self.lists.read();
        lists.tokens.contains(&claims.id)
            || lists.users.get(&claims.user).is_some_and(|until| claims.issued_at <= *until)
    }

    /// The last second of issue of which no token of the user is valid; 0 when there is none.
    pub fn cutoff(&self, user: UserId) -> i64 {
        let lists = self.lists.read();
        lists.users.get(&user).copied().unwrap_or(0)
    }

    /// Takes over what was committed.
    pub fn apply(&self, change: &Change) {
        let mut lists = self.lists.write();
        lists.tokens.extend(change.added);
        // The cutoff before the tokens that it replaces; both under one lock.
        if let Some((user, cutoff)) = change.folded {
            // Those of several nodes come in any order.
            let until = lists.users.entry(user).or_insert(cutoff.until);
            *until = cutoff.until.max(*until);
        }
        for token in &change.forgotten {
            lists.tokens.remove(token);
        }
        for user in &change.forgotten_users {
            lists.users.remove(user);
        }
    }

    /// Tokens and cutoffs remembered now.
    pub fn len(&self) -> usize {
        let lists = self.lists.read();
        lists.tokens.len() + lists.users.len()
    }
}
