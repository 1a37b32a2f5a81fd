//! Transactions on accounts. One method is one whole transaction.

use super::change::Revocation;
use super::regions::{RegionId, RegionRow};
use super::revoked::{Change, Cutoff, MARGIN_SECONDS, MOST_OF_ONE_USER};
use super::token::{Claims, TokenId};
use super::{UserId, sessions};
use crate::idempotency::IdempotencyKey;
use crate::store::{Conn, Result, Row, Sql, Store, StoreError, Tx, Value, columns, params};

/// Expired rows that one log-out deletes with its own write.
const SWEPT_AT_ONCE: usize = 256;

/// Accounts in the store. Every method fails when the store does not answer; nothing is written then,
/// unless the error [is unknown](crate::store::StoreError::is_unknown).
#[derive(Clone, Debug)]
pub struct AccountStore {
    pub(super) store: Store,
}

/// A new account.
#[derive(Clone)]
pub struct NewUser {
    /// Display form. Names that differ only in the case of ASCII letters are the same.
    pub nickname: String,
    /// Text of the hash.
    pub password_hash: String,
    /// A region of the table.
    pub region: RegionId,
    /// Milliseconds since 1970.
    pub created_at_ms: i64,
}

impl std::fmt::Debug for NewUser {
    /// Without the hash: in a log it can be attacked like one in a stolen database.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewUser").field("nickname", &self.nickname).finish_non_exhaustive()
    }
}

/// The data of an account for log-in.
#[derive(Clone)]
pub struct Credentials {
    /// Identifier of the user.
    pub id: UserId,
    /// The nickname as registered.
    pub nickname: String,
    /// Text of the stored hash, which may be malformed.
    pub password_hash: String,
}

/// An account as its owner sees it.
#[derive(Clone)]
pub struct User {
    pub(crate) id: UserId,
    /// The nickname as registered.
    pub(crate) nickname: String,
    pub(crate) region: RegionId,
    /// Milliseconds since 1970.
    pub created_at_ms: i64,
}

/// All data that is kept in memory: regions, their further names, revoked tokens and cutoffs.
pub(crate) type Remembered =
    (Vec<RegionRow>, Vec<(RegionId, String)>, Vec<TokenId>, Vec<(UserId, Cutoff)>);

impl AccountStore {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Reads the data that is kept in memory. Blocks the thread.
    pub(crate) fn remembered(&self) -> Result<Remembered> {
        self.store.read_blocking(|conn| {
            let regions =
                conn.rows("SELECT id, province_id, name, name_en FROM regions", &[], region)?;
            let names = conn.rows("SELECT region_id, name FROM region_names", &[], columns)?;
            let tokens = ids(conn, "SELECT id FROM revoked_tokens", &[])?;
            let cutoffs = "SELECT user_id, until, expires_at FROM revoked_users";
            let users = conn.rows(cutoffs, &[], |row| {
                Ok((row.get(0)?, Cutoff { until: row.get(1)?, expires_at: row.get(2)? }))
            })?;
            Ok((regions, names, tokens, users))
        })
    }

    /// Stores accounts in one transaction, in order; `None` for a nickname that is taken. For filling a store.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn insert_all(&self, users: Vec<NewUser>) -> Result<Vec<Option<UserId>>> {
        self.store.write(move |tx| users.iter().map(|user| insert(tx, user)).collect()).await
    }

    /// Stores a new account with the key of its request; `None` when the nickname is taken. Of concurrent inserts
    /// exactly one succeeds.
    pub(crate) async fn insert(
        &self,
        user: NewUser,
        key: IdempotencyKey,
    ) -> Result<Option<UserId>> {
        let job = move |tx: &mut Tx<'_>| {
            let Some(id) = insert(tx, &user)? else { return Ok(None) };
            let once = key.clone().used_by(id, &request(&user.nickname, user.region));
            let done = once.run(tx, |_| Ok::<UserId, StoreError>(id))?;
            Ok(Some(done.outcome))
        };
        self.store.write(job).await
    }

    /// Returns true if a request with this key, nickname and region made the account `id`. Also fails when the key
    /// came with other fields.
    pub(super) async fn was_made_by(
        &self,
        key: IdempotencyKey,
        id: UserId,
        nickname: &str,
        region: RegionId,
    ) -> Result<bool> {
        let once = key.clone().used_by(id, &request(nickname, region));
        if !once.has_key() {
            return Ok(false);
        }
        let found = self.store.read(move |conn| Ok(once.find::<UserId>(conn))).await?;
        Ok(found?.is_some())
    }

    /// On a database server, stores a key derived from the token key, or compares it with the stored one: all nodes
    /// must sign with the same key. A file has one process. Blocks the thread.
    pub(super) fn agree_on_key(&self, derived: [u8; 32]) -> Result<()> {
        if !self.store.is_shared() {
            return Ok(());
        }
        let stored: Vec<u8> = self.store.write_blocking(move |tx| {
            let first = "UPDATE madang_cluster SET token_key = ? WHERE token_key IS NULL";
            tx.run(first, params![derived])?;
            tx.one("SELECT token_key FROM madang_cluster", &[])
        })?;
        if stored == derived {
            return Ok(());
        }
        Err(StoreError::Foreign(
            "this node signs tokens with another key than the other nodes of this database: set \
             accounts.token_key to the same key on all of them (without it, a node's key is in its data \
             directory). To use a new key, which ends all sessions, stop all nodes and run: \
             UPDATE madang_cluster SET token_key = NULL"
                .to_owned(),
        ))
    }

    /// The credentials of the account of this name.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn credentials(&self, nickname: String) -> Result<Option<Credentials>> {
        let sql = "SELECT id, nickname, password_hash FROM users WHERE nickname = ?";
        let read = |row: &Row<'_>| {
            let (id, nickname, password_hash) = columns(row)?;
            Ok(Credentials { id, nickname, password_hash })
        };
        self.store.read(move |conn| conn.first(sql, params![nickname], read)).await
    }

    /// The account of this id.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn find(&self, id: UserId) -> Result<Option<User>> {
        let sql = "SELECT id, nickname, region_id, created_at_ms FROM users WHERE id = ?";
        self.store.read(move |conn| conn.first(sql, params![id], user)).await
    }

    /// The newest accounts whose nicknames begin with `begins`, newest first. Scans the whole table if there are few.
    pub(crate) async fn newest(&self, begins: String, most: u32) -> Result<Vec<User>> {
        let sql = "SELECT id, nickname, region_id, created_at_ms FROM users
             WHERE nickname LIKE ? ESCAPE '!' ORDER BY id DESC LIMIT ?";
        let mut pattern = String::new();
        for c in begins.chars() {
            if matches!(c, '!' | '%' | '_') {
                pattern.push('!');
            }
            pattern.push(c);
        }
        pattern.push('%');
        self.store.read(move |conn| conn.rows(sql, params![pattern, i64::from(most)], user)).await
    }

    /// Replaces the hash `old` by `new`; returns false if the password, and thereby the hash, was changed meanwhile.
    pub(super) async fn renew_hash(&self, id: UserId, old: String, new: String) -> Result<bool> {
        let update = "UPDATE users SET password_hash = ? WHERE id = ? AND password_hash = ?";
        self.store.write(move |tx| Ok(tx.run(update, params![new, id, old])? > 0)).await
    }

    pub(super) async fn revoke(&self, token: Claims, now: i64) -> Result<()> {
        self.store.write(move |tx| revoke(tx, &token, now)).await
    }

    /// Revokes all tokens of a user.
    pub(super) async fn end_tokens(&self, revocation: Revocation) -> Result<()> {
        self.store.write(move |tx| end_tokens(tx, revocation)).await
    }

    /// Stores a new hash and revokes all tokens.
    pub(super) async fn change_password(&self, revocation: Revocation, hash: String) -> Result<()> {
        let job = move |tx: &mut Tx<'_>| {
            tx.run(
                "UPDATE users SET password_hash = ? WHERE id = ?",
                params![hash, revocation.user],
            )?;
            end_tokens(tx, revocation)
        };
        self.store.write(job).await
    }

    /// Deletes a user and revokes all tokens. Dependent rows are deleted, or lose the name, in the background.
    pub(super) async fn delete(&self, revocation: Revocation) -> Result<()> {
        self.store.write(move |tx| delete(tx, revocation)).await
    }

    /// The same, and invalidates all cached bodies, so that none contains the user's name.
    pub(super) async fn delete_at_once(&self, revocation: Revocation) -> Result<()> {
        let job = move |tx: &mut Tx<'_>| {
            tx.effects().end_everything();
            delete(tx, revocation)
        };
        self.store.write(job).await
    }
}

fn delete(tx: &mut Tx<'_>, revocation: Revocation) -> Result<()> {
    tx.run("DELETE FROM users WHERE id = ?", params![revocation.user])?;
    // In a file a trigger has inserted it already; a server has none.
    tx.insert_new("INSERT INTO deleted_users (id) VALUES (?)", params![revocation.user])?;
    tx.effects().leave_rows();
    end_tokens(tx, revocation)
}

fn insert(tx: &Tx<'_>, user: &NewUser) -> Result<Option<UserId>> {
    tx.insert_new(
        "INSERT INTO users (nickname, password_hash, region_id, created_at_ms) VALUES (?, ?, ?, ?)",
        params![user.nickname, user.password_hash, user.region, user.created_at_ms],
    )
}

/// Returns true if the user exists. A token proves only that the user existed when it was issued.
pub(crate) fn exists(conn: &Conn<'_>, id: UserId) -> Result<bool> {
    conn.exists("SELECT 1 FROM users WHERE id = ?", params![id])
}

/// The same within a transaction that writes data of the user, who then exists until its end.
pub(crate) fn stays(tx: &Tx<'_>, id: UserId) -> Result<bool> {
    tx.keep("users", id)
}

/// The data that makes two sign-ups the same request. Without the password: its fingerprint would have to be fast, and
/// an attacker with the file could guess at that instead of at the hash.
fn request(nickname: &str, region: RegionId) -> Vec<u8> {
    format!("{region} {nickname}").into_bytes()
}

/// Revokes a token and deletes its session.
pub(super) fn revoke(tx: &mut Tx<'_>, token: &Claims, now: i64) -> Result<()> {
    sessions::forget(tx, token.id)?;
    let added = tx.insert_new(
        "INSERT INTO revoked_tokens (id, user_id, issued_at, expires_at) VALUES (?, ?, ?, ?)",
        params![token.id.0, token.user, token.issued_at, token.expires_at],
    )?;
    let mut change = Change { added: added.map(|_| token.id), ..Change::default() };
    fold(tx, token.user, now, &mut change)?;
    forget_expired(tx, now, &mut change)?;
    tx.effects().revoke(change);
    Ok(())
}

/// Deletes revocations of expired tokens.
fn forget_expired(tx: &Tx<'_>, now: i64, change: &mut Change) -> Result<()> {
    let dead = now - MARGIN_SECONDS;
    change.forgotten.extend(ids(tx, EXPIRED, params![dead, SWEPT_AT_ONCE])?);
    let users = "DELETE FROM revoked_users WHERE expires_at < ? RETURNING user_id";
    change.forgotten_users = tx.rows(users, params![dead], |row| row.get(0))?;
    Ok(())
}

/// Revokes all tokens of a user by a cutoff, which replaces single revocations.
fn end_tokens(tx: &mut Tx<'_>, revocation: Revocation) -> Result<()> {
    let Revocation { user, until, expires_at, now } = revocation;
    tx.run(END_TOKENS, params![user, until, expires_at])?;
    let mut change = Change::default();
    replace_by_cutoff(tx, user, until, &mut change)?;
    forget_expired(tx, now, &mut change)?;
    tx.effects().revoke(change);
    Ok(())
}

const END_TOKENS: Sql<'_> = Sql::each(
    "INSERT INTO revoked_users (user_id, until, expires_at) VALUES (?, ?, ?)
     ON CONFLICT (user_id) DO UPDATE SET until = max(until, excluded.until),
                                         expires_at = max(expires_at, excluded.expires_at)",
    "INSERT INTO revoked_users (user_id, until, expires_at) VALUES (?, ?, ?)
     ON DUPLICATE KEY UPDATE until = GREATEST(until, VALUES(until)),
                             expires_at = GREATEST(expires_at, VALUES(expires_at))",
);

const EXPIRED: Sql<'_> = Sql::each(
    "DELETE FROM revoked_tokens WHERE id IN
       (SELECT id FROM revoked_tokens WHERE expires_at < ? LIMIT ?) RETURNING id",
    "DELETE FROM revoked_tokens WHERE expires_at < ? LIMIT ? RETURNING id",
);

const CUT_OFF: Sql<'_> = Sql::each(
    "INSERT INTO revoked_users (user_id, until, expires_at)
     SELECT user_id, max(issued_at), max(expires_at) FROM revoked_tokens
     WHERE user_id = ? AND issued_at <= ? GROUP BY user_id
     ON CONFLICT (user_id) DO UPDATE SET until = max(until, excluded.until),
                                         expires_at = max(expires_at, excluded.expires_at)",
    "INSERT INTO revoked_users (user_id, until, expires_at)
     SELECT user_id, max(issued_at), max(expires_at) FROM revoked_tokens
     WHERE user_id = ? AND issued_at <= ? GROUP BY user_id
     ON DUPLICATE KEY UPDATE until = GREATEST(until, VALUES(until)),
                             expires_at = GREATEST(expires_at, VALUES(expires_at))",
);

/// Folds the older half of a user's revocations into a cutoff when there are too many. Revocations of tokens that were
/// issued while the clock was ahead of `now` stay: a cutoff in the future would refuse every token that the user gets
/// until then.
fn fold(tx: &Tx<'_>, user: UserId, now: i64, change: &mut Change) -> Result<()> {
    let count: usize =
        tx.one("SELECT count(*) FROM revoked_tokens WHERE user_id = ?", params![user])?;
    if count <= MOST_OF_ONE_USER {
        return Ok(());
    }
    let until: i64 = tx.one(
        "SELECT issued_at FROM revoked_tokens WHERE user_id = ? ORDER BY issued_at LIMIT 1 OFFSET ?",
        params![user, count / 2],
    )?;
    let until = until.min(now);
    if tx.run(CUT_OFF, params![user, until])? > 0 {
        replace_by_cutoff(tx, user, until, change)?;
    }
    Ok(())
}

/// Deletes revocations that the cutoff of a user makes unnecessary.
fn replace_by_cutoff(tx: &Tx<'_>, user: UserId, until: i64, change: &mut Change) -> Result<()> {
    let read = "SELECT until, expires_at FROM revoked_users WHERE user_id = ?";
    let cutoff = tx.first(read, params![user], |row| {
        Ok(Cutoff { until: row.get(0)?, expires_at: row.get(1)? })
    })?;
    change.folded = cutoff.map(|cutoff| (user, cutoff));
    sessions::forget_until(tx, user, until)?;
    let replaced = "DELETE FROM revoked_tokens WHERE user_id = ? AND issued_at <= ? RETURNING id";
    change.forgotten = ids(tx, replaced, params![user, until])?;
    Ok(())
}

fn ids<'s>(conn: &Conn<'_>, sql: impl Into<Sql<'s>>, values: &[Value<'_>]) -> Result<Vec<TokenId>> {
    conn.rows(sql, values, |row| Ok(TokenId(row.get(0)?)))
}

fn user(row: &Row<'_>) -> Result<User> {
    let (id, nickname, region, created_at_ms) = columns(row)?;
    Ok(User { id, nickname, region, created_at_ms })
}

fn region(row: &Row<'_>) -> Result<RegionRow> {
    let (id, province, name, name_en) = columns(row)?;
    Ok(RegionRow { id, province, name, name_en })
}
