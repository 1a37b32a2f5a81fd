//! Revoked tokens in memory, checked at every request with a token.
//!
//! The table in the store is authoritative. It is loaded at the start; a log-out is applied to the memory after its
//! commit and before its response.

use super::UserId;
use super::token::{Claims, TokenId};
use parking_lot::RwLock;
use std::collections::{HashMap, HashSet};

/// Single revocations of one user. One more folds the older half of them into a cutoff: no token issued up to then is
/// valid. This bounds the memory that a user can take, at a price for that user only: other devices that logged in
/// before the cutoff have to log in again.
pub(super) const MOST_OF_ONE_USER: usize = 64;

/// Seconds for which a revocation outlives its token: a clock that is set back by less revives no token.
pub(super) const MARGIN_SECONDS: i64 = 86_400;

/// Refuses all tokens of a user that were issued up to `until`. Times in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cutoff {
    pub(crate) until: i64,
    /// Expiry of the last of the revoked tokens.
    pub(crate) expires_at: i64,
}

/// Changes of one log-out in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// A revoked token.
    pub(crate) added: Option<TokenId>,
    /// A user whose older revocations were folded into a cutoff.
    pub(crate) folded: Option<(UserId, Cutoff)>,
    /// Tokens whose rows were deleted: folded, or expired long enough ago.
    pub(crate) forgotten: Vec<TokenId>,
    /// Users whose cutoff was deleted.
    pub(crate) forgotten_users: Vec<UserId>,
}

/// Revoked tokens.
#[derive(Debug, Default)]
pub(crate) struct Revoked {
    lists: RwLock<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    tokens: HashSet<TokenId>,
    users: HashMap<UserId, i64>,
}

impl Lists {
    /// Cutoffs of several nodes arrive in any order: the latest counts.
    fn cut_off(&mut self, user: UserId, cutoff: Cutoff) {
        let until = self.users.entry(user).or_insert(cutoff.until);
        *until = cutoff.until.max(*until);
    }
}

impl Revoked {
    /// Adds the revocations of the store.
    pub(super) fn extend(
        &self,
        tokens: impl IntoIterator<Item = TokenId>,
        users: impl IntoIterator<Item = (UserId, Cutoff)>,
    ) {
        let mut lists = self.lists.write();
        lists.tokens.extend(tokens);
        users.into_iter().for_each(|(user, cutoff)| lists.cut_off(user, cutoff));
    }

    /// Returns true if the token with these claims was revoked.
    pub(crate) fn contains(&self, claims: &Claims) -> bool {
        let lists = self.lists.read();
        lists.tokens.contains(&claims.id)
            || lists.users.get(&claims.user).is_some_and(|until| claims.issued_at <= *until)
    }

    /// The last second of issue that is refused for the user; 0 without a cutoff.
    pub(super) fn cutoff(&self, user: UserId) -> i64 {
        self.lists.read().users.get(&user).copied().unwrap_or(0)
    }

    /// Applies a committed change.
    pub(crate) fn apply(&self, change: &Change) {
        let mut lists = self.lists.write();
        lists.tokens.extend(change.added);
        // The cutoff before the tokens that it replaces; both under one lock.
        if let Some((user, cutoff)) = change.folded {
            lists.cut_off(user, cutoff);
        }
        for token in &change.forgotten {
            lists.tokens.remove(token);
        }
        for user in &change.forgotten_users {
            lists.users.remove(user);
        }
    }

    /// Number of tokens and cutoffs.
    pub(super) fn len(&self) -> usize {
        let lists = self.lists.read();
        lists.tokens.len() + lists.users.len()
    }
}
