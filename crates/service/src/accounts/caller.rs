//! Who a request comes from, by its bearer token.

use super::UserId;
use crate::app::App;
use crate::http::Problem;
use axum::extract::FromRequestParts;
use http::request::Parts;
use std::sync::Arc;

/// The user whose valid token a request carries; without one the request is answered 401.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The user.
    pub id: UserId,
}

/// The user, or nobody: for what everybody may read. A token that is there but not valid is still 401.
#[derive(Clone, Debug)]
pub struct MaybeCaller(pub Option<Caller>);

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let MaybeCaller(caller) = MaybeCaller::from_request_parts(parts, app).await?;
        caller.ok_or_else(|| {
            Problem::unauthorized("log in and send the token: Authorization: Bearer …")
        })
    }
}

impl FromRequestParts<Arc<App>> for MaybeCaller {
    type Rejection = Problem;

    async fn from_request_parts(_parts: &mut Parts, _app: &Arc<App>) -> Result<Self, Problem> {
        Ok(MaybeCaller(None))
    }
}
