//! The user of a request, by its bearer token.

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

/// The user whose valid token a request carries; without one the response is 401.
///
/// The token proves who logged in, not that the account still exists: writes check `accounts::stays` in their own
/// transaction.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Identifier of the user.
    pub id: UserId,
    pub(super) claims: Claims,
}

impl Caller {
    /// The user whose valid token a request carries; 401 without one.
    pub(crate) fn of(parts: &Parts, accounts: &Accounts) -> Result<Self, Problem> {
        caller_of(parts, accounts)?.ok_or_else(|| {
            Problem::unauthorized("not logged in; send the token as Authorization: Bearer …")
        })
    }
}

/// The user of a request that needs no token. An invalid token is still a 401.
pub(crate) struct MaybeCaller(pub(crate) Option<Caller>);

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

/// The bearer token among headers; `Some(None)` without one, `None` if they are malformed.
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

/// The caller; `None` without a bearer token. Other schemes are ignored: they may be meant for a proxy in front.
fn caller_of(parts: &Parts, accounts: &Accounts) -> Result<Option<Caller>, Problem> {
    let invalid = || Problem::invalid_token("the token is not valid (any more): log in again");
    let Some(token) = bearer(&parts.headers).ok_or_else(invalid)? else { return Ok(None) };
    let claims = accounts.verify(token).ok_or_else(invalid)?;
    current::note_user(claims.user);
    Ok(Some(Caller { id: claims.user, claims }))
}
