//! Who a request comes from, by its bearer token.

use super::token::Claims;
use super::{Accounts, UserId};
use crate::app::App;
use crate::current;
use crate::http::Problem;
use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use std::sync::Arc;

/// The user whose valid token a request carries; without one the request is answered 401.
///
/// The token is proof of who logged in, not that the account still exists: what writes asks
/// `accounts::stays` in its own transaction.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The user.
    pub id: UserId,
    /// What the token says.
    pub(super) claims: Claims,
}

impl Caller {
    /// The user whose valid token the head of a request carries.
    ///
    /// # Errors
    /// 401 when there is none.
    pub fn of(parts: &Parts, accounts: &Accounts) -> Result<Self, Problem> {
        caller_of(parts, accounts)?.ok_or_else(|| {
            Problem::unauthorized("not logged in; send the token as Authorization: Bearer …")
        })
    }
}

/// The user, or nobody: for what everybody may read. A token that is there but not valid is still 401.
#[derive(Clone, Debug)]
pub struct MaybeCaller(pub Option<Caller>);

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        Caller::of(parts, &app.accounts)
    }
}

impl FromRequestParts<Arc<App>> for MaybeCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        caller_of(parts, &app.accounts).map(MaybeCaller)
    }
}

/// The bearer token among headers; `Some(None)` without one, `None` when they cannot be read.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<Option<&str>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Some(None) };
    if values.next().is_some() {
        return None;
    }
    let value = value.to_str().ok()?;
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    Some(scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()))
}

/// The caller; nobody when there is no bearer token. Other schemes are other servers' business: a
/// proxy in front may have asked for them.
fn caller_of(parts: &Parts, accounts: &Accounts) -> Result<Option<Caller>, Problem> {
    let invalid = || Problem::invalid_token("the token is not valid (any more): log in again");
    let Some(token) = bearer(&parts.headers).ok_or_else(invalid)? else { return Ok(None) };
    let claims = accounts.verify(token).ok_or_else(invalid)?;
    current::note_user(claims.user);
    Ok(Some(Caller { id: claims.user, claims }))
}
