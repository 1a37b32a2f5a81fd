//! The caller and its sessions: `GET /v1/users/me`, `POST /v1/auth/user/logout`, `GET /v1/users/me/sessions` and
//! `DELETE /v1/users/me/sessions/{id}`.
//!
//! A session is one token. Its row is written before the token is sent, and only informs its owner: tokens and
//! revocations decide what a request may do, never this table.

use super::token::{Claims, TokenId};
use super::{AccountStore, Caller, UserId, token};
use crate::http::{Answer, PathId, Problem, Read, Write, not_stored, rfc3339};
use crate::store::{Conn, Result, Row, Sql, Tx, columns, params};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;

/// Stored sessions of one user, the newest. Tokens of older ones stay valid until they expire.
const MOST_OF_ONE_USER: usize = 50;

/// Characters of `User-Agent` that are stored.
const DEVICE_CHARS: usize = 200;

/// Ended sessions that one log-in deletes with its own write.
const SWEPT_AT_ONCE: usize = 256;

/// An account, as its owner sees it.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Me {
    /// The user.
    id: UserId,
    /// The nickname as it was registered.
    nickname: String,
    /// The region, in Korean.
    region_name: String,
    /// The region, in English.
    region_name_en: String,
    /// When the account was made.
    #[schema(format = DateTime)]
    created_at: String,
}

/// The account of the token.
#[utoipa::path(get, path = "/v1/users/me", tag = "accounts",
    security(("bearer" = [])),
    responses(
        (status = 200, description = "The account of the token", body = Me),
    ))]
pub(super) async fn me(caller: Caller, Read { app, .. }: Read) -> Answer {
    let accounts = &app.accounts;
    let _turn = app.reads.enter().await?;
    let user = accounts.store().find(caller.id).await?.ok_or_else(Problem::account_gone)?;
    let (region_name, region_name_en) = accounts.regions().full_name(user.region);
    Ok(not_stored(Me {
        id: user.id,
        nickname: user.nickname,
        region_name,
        region_name_en,
        created_at: rfc3339::format_utc(user.created_at_ms),
    }))
}

/// Log out.
///
/// The token is refused from this answer on, also after a restart. Other tokens of the user stay valid,
/// until more than 64 have been logged out before their time: then those older than the newer half of
/// them are refused together.
#[utoipa::path(post, path = "/v1/auth/user/logout", tag = "accounts",
    security(("bearer" = [])),
    responses(
        (status = 204, description = "Logged out"),
    ))]
pub(super) async fn logout(Write { app, caller, .. }: Write) -> Answer<StatusCode> {
    let accounts = app.accounts.clone();
    let revoke = async move { accounts.store().revoke(caller.claims, token::now()).await };
    // Runs to its end within the gate, also when the client leaves.
    app.writes.run(revoke).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// A session.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionItem {
    /// Identifier, 22 characters. It is no secret and gives access to nothing.
    id: String,
    /// The `User-Agent` that logged in, its first 200 characters; empty when it sent none.
    device: String,
    /// Whether it is the session of this request.
    current: bool,
    /// When it began, RFC 3339.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it ends, unless it is ended before, likewise.
    #[schema(format = DateTime)]
    expires_at: String,
}

/// Sessions.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct SessionList {
    /// The newest first.
    items: Vec<SessionItem>,
}

/// The caller's sessions, the newest 50.
#[utoipa::path(get, path = "/v1/users/me/sessions", tag = "accounts", operation_id = "listSessions",
    security(("bearer" = [])),
    responses(
        (status = 200, description = "The sessions", body = SessionList),
    ))]
pub(super) async fn list(caller: Caller, Read { app, .. }: Read) -> Answer {
    let _turn = app.reads.enter().await?;
    let accounts = &app.accounts;
    let found = accounts.store().sessions(caller.id, token::now()).await?;
    let valid = found.into_iter().filter(|one| !accounts.inner.revoked.contains(&one.claims));
    let item = |one: Session| SessionItem {
        id: URL_SAFE_NO_PAD.encode(one.claims.id.0),
        device: one.device,
        current: one.claims.id == caller.claims.id,
        created_at: rfc3339::format_utc(one.claims.issued_at.saturating_mul(1000)),
        expires_at: rfc3339::format_utc(one.claims.expires_at.saturating_mul(1000)),
    };
    Ok(not_stored(SessionList { items: valid.map(item).collect() }))
}

/// End one of the caller's sessions: its token is refused from this answer on.
#[utoipa::path(delete, path = "/v1/users/me/sessions/{id}", tag = "accounts", operation_id = "endSession",
    security(("bearer" = [])),
    params(("id" = String, Path, description = "Id of the session")),
    responses(
        (status = 204, description = "It has ended"),
        (status = 404, description = "The caller has no such session, or no longer"),
    ))]
pub(super) async fn end(id: PathId<String>, write: Write) -> Answer<StatusCode> {
    let unknown = || Problem::not_found("no such session of yours");
    let id = URL_SAFE_NO_PAD.decode(id.or(unknown)?).ok().and_then(|id| id.try_into().ok());
    let id = TokenId(id.ok_or_else(unknown)?);
    let Write { app, caller, .. } = write;
    let accounts = app.accounts.clone();
    let end = async move { accounts.store().end_session(caller.id, id, token::now()).await };
    if app.writes.run(end).await?? { Ok(StatusCode::NO_CONTENT) } else { Err(unknown()) }
}

/// A stored session.
pub(super) struct Session {
    claims: Claims,
    /// `User-Agent` of the client.
    device: String,
}

impl Session {
    /// The session of a token for the client that sent these headers.
    pub(super) fn new(claims: Claims, headers: &HeaderMap) -> Self {
        let agent = headers.get(header::USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
        let text = String::from_utf8_lossy(agent);
        let device = text.chars().filter(|c| !c.is_control()).take(DEVICE_CHARS).collect();
        Self { claims, device }
    }
}

impl AccountStore {
    /// Stores a new session. If this fails, its token must not be sent.
    pub(super) async fn begin_session(&self, session: Session) -> Result<()> {
        self.store.write(move |tx| begin(tx, &session)).await
    }

    /// Unexpired sessions of a user, newest first.
    async fn sessions(&self, user: UserId, now: i64) -> Result<Vec<Session>> {
        let sql = "SELECT id, issued_at, expires_at, device FROM sessions
             WHERE user_id = ? AND expires_at > ? ORDER BY issued_at DESC, id LIMIT ?";
        let read = move |row: &Row<'_>| {
            let (id, issued_at, expires_at, device) = columns(row)?;
            Ok(Session { claims: Claims { id: TokenId(id), user, issued_at, expires_at }, device })
        };
        let values =
            move |conn: &Conn<'_>| conn.rows(sql, params![user, now, MOST_OF_ONE_USER], read);
        self.store.read(values).await
    }

    /// Ends a session of a user; returns false if it does not exist.
    async fn end_session(&self, user: UserId, id: TokenId, now: i64) -> Result<bool> {
        let job = move |tx: &mut Tx<'_>| {
            let sql = "SELECT issued_at, expires_at FROM sessions WHERE id = ? AND user_id = ?";
            let found = tx.first(sql, params![id.0, user], columns)?;
            let Some((issued_at, expires_at)) = found else { return Ok(false) };
            super::store::revoke(tx, &Claims { id, user, issued_at, expires_at }, now)?;
            Ok(true)
        };
        self.store.write(job).await
    }
}

fn begin(tx: &Tx<'_>, session: &Session) -> Result<()> {
    let Session { claims, device } = session;
    tx.run(
        "INSERT INTO sessions (id, user_id, issued_at, expires_at, device) VALUES (?, ?, ?, ?, ?)",
        params![claims.id.0, claims.user, claims.issued_at, claims.expires_at, device],
    )?;
    let beyond = "SELECT id FROM sessions WHERE user_id = ? AND id <> ?
         ORDER BY issued_at DESC, id LIMIT ? OFFSET ?";
    let values = params![claims.user, claims.id.0, SWEPT_AT_ONCE, MOST_OF_ONE_USER - 1];
    let beyond: Vec<[u8; 16]> = tx.rows(beyond, values, |row| row.get(0))?;
    for id in beyond {
        tx.run("DELETE FROM sessions WHERE id = ?", params![id])?;
    }
    tx.run(EXPIRED, params![claims.issued_at, SWEPT_AT_ONCE])?;
    Ok(())
}

const EXPIRED: Sql<'_> = Sql::each(
    "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE expires_at < ? LIMIT ?)",
    "DELETE FROM sessions WHERE expires_at < ? LIMIT ?",
);

/// Deletes the session of a revoked token.
pub(super) fn forget(tx: &Tx<'_>, id: TokenId) -> Result<()> {
    tx.run("DELETE FROM sessions WHERE id = ?", params![id.0])?;
    Ok(())
}

/// Deletes the sessions of a user that began by `until`, whose tokens are revoked.
pub(super) fn forget_until(tx: &Tx<'_>, user: UserId, until: i64) -> Result<()> {
    tx.run("DELETE FROM sessions WHERE user_id = ? AND issued_at <= ?", params![user, until])?;
    Ok(())
}
