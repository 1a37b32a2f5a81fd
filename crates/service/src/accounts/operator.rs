//! Changes of accounts by the operator.

use super::change::Revocation;
use super::quota::OwnedRows;
use super::types::{NICKNAME_CHARS, NICKNAME_RULE, is_nickname};
use super::{Accounts, User, UserId, token};
use crate::http::json::one_line;
use crate::store::{Conn, Result, params};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use madang_guard::hash::{Password, PoolError};

/// Random bytes of a password, which are 20 characters.
const PASSWORD_RANDOM: usize = 15;

/// A user as named by the operator. No nickname has a colon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Id(UserId),
    Nickname(String),
}

impl Named {
    /// Reads `id:7` or a nickname.
    pub(crate) fn parse(text: &str) -> Result<Self, NotNamed> {
        if let Some(id) = text.strip_prefix("id:") {
            return id.parse().map(Self::Id).map_err(|_| NotNamed::Id(text.to_owned()));
        }
        let name = one_line(text, NICKNAME_CHARS).filter(|name| is_nickname(name));
        name.map(Self::Nickname).ok_or_else(|| NotNamed::Nickname(text.to_owned()))
    }
}

/// A prefix of nicknames in stored form; `None` if no nickname can begin so.
pub(crate) fn nickname_start(text: &str) -> Option<String> {
    one_line(text, 0..=*NICKNAME_CHARS.end())
}

/// Error of naming a user.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum NotNamed {
    #[error("{0:?} is no user: expected id: and a number")]
    Id(String),
    #[error("{0:?} is no user: expected a nickname ({NICKNAME_RULE}) or id: and a number")]
    Nickname(String),
}

/// Stored data of a user.
pub(crate) struct Overview {
    pub(crate) user: User,
    /// Number of rows by kind.
    pub(crate) rows: Vec<(&'static str, u64)>,
    /// The last second of issue that is refused, since 1970.
    pub(crate) cutoff: Option<i64>,
    /// Stored revocations of single tokens after the cutoff.
    pub(crate) revoked: u64,
}

/// Kinds of rows of users, and their `FROM` clauses. Likes have no index by user.
const ROWS: [(&str, &str); 6] = [
    ("tracks", OwnedRows::Tracks.of_user()),
    ("runs", OwnedRows::Runs.of_user()),
    ("schedules", "schedules WHERE user_id = ?"),
    ("posts", OwnedRows::Posts.of_user()),
    ("articles", OwnedRows::Articles.of_user()),
    ("comments", OwnedRows::Comments.of_user()),
];

/// Error of making a password.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PasswordError {
    #[error("the system has no random bytes: {0}")]
    Random(#[from] getrandom::Error),
    #[error("the password cannot be hashed: {0}")]
    Hash(#[from] PoolError),
}

impl Accounts {
    pub(crate) async fn named(&self, named: Named) -> Result<Option<User>> {
        let id = match named {
            Named::Id(id) => id,
            Named::Nickname(name) => match self.store().credentials(name).await? {
                Some(credentials) => credentials.id,
                None => return Ok(None),
            },
        };
        self.store().find(id).await
    }

    pub(crate) async fn overview(&self, user: User) -> Result<Overview> {
        let read = move |conn: &Conn<'_>| {
            let id = user.id;
            let count = |rows: &str| {
                let sql = format!("SELECT count(*) FROM {rows}");
                conn.one(&sql, params![id])
            };
            let rows = ROWS.iter().map(|(name, rows)| Ok((*name, count(rows)?)));
            let cutoff = "SELECT until FROM revoked_users WHERE user_id = ?";
            Ok(Overview {
                user: user.clone(),
                rows: rows.collect::<Result<_>>()?,
                cutoff: conn.first(cutoff, params![id], |row| row.get(0))?,
                revoked: count("revoked_tokens WHERE user_id = ?")?,
            })
        };
        self.store().store.read(read).await
    }

    /// Revokes every token of a user, on every node.
    pub(crate) async fn log_out_user(&self, user: UserId) -> Result<()> {
        self.store().end_tokens(self.revocation_of(user)).await
    }

    /// Deletes an account, as its owner can. Also invalidates all cached bodies, so that none contains the nickname;
    /// only the operator may cause that at will.
    pub(crate) async fn delete_user(&self, user: UserId) -> Result<()> {
        self.store().delete_at_once(self.revocation_of(user)).await
    }

    /// A random password, and its hash.
    pub(crate) async fn random_password(&self) -> Result<(String, String), PasswordError> {
        let mut random = [0; PASSWORD_RANDOM];
        getrandom::fill(&mut random)?;
        let password = URL_SAFE_NO_PAD.encode(random);
        let hash = self.hasher().hash(Password::from(password.as_str())).await?;
        Ok((password, hash.as_str().to_owned()))
    }

    /// Stores the hash of a new password, and revokes every token.
    pub(crate) async fn set_password(&self, user: UserId, hash: String) -> Result<()> {
        self.store().change_password(self.revocation_of(user), hash).await
    }

    /// Revokes all tokens of a user that were issued until now.
    fn revocation_of(&self, user: UserId) -> Revocation {
        let now = token::now();
        // A log-in soon after an earlier end got a token of the second after it, which may be in the future. Repeated
        // ends must not push that beyond the accepted skew.
        let after_the_last = self.inner.revoked.cutoff(user) + 1;
        let until = now.max(after_the_last.min(now + token::SKEW_SECONDS / 2));
        Revocation { user, until, expires_at: self.inner.tokens.expiry(now), now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_by_nickname_or_number_and_neither_is_taken_for_the_other() {
        assert_eq!(Named::parse("id:7"), Ok(Named::Id(7)));
        assert_eq!(Named::parse("7777"), Ok(Named::Nickname("7777".to_owned())));
        assert_eq!(Named::parse("마당"), Ok(Named::Nickname("마당".to_owned())));
        for wrong in ["", "id:", "id:x", "7 ", "a\nb", "a/b", "id"] {
            let is_wrong = Named::parse(wrong).is_err();
            assert_eq!(is_wrong, wrong != "id", "{wrong:?}");
        }
    }
}
