//! Extractors of handlers. Nearly every request is a read, a create, or a write to an existing item.

use super::{Conditions, JsonObject, Problem};
use crate::accounts::Caller;
use crate::app::App;
use crate::idempotency::{IdempotencyKey, Once};
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path};
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Uri};
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::sync::Arc;

/// Result of a handler.
pub(crate) type Answer<T = Response> = Result<T, Problem>;

/// The id in a path. An extractor that never rejects: a malformed id is treated as one that does not exist.
pub(crate) struct PathId<T>(Option<T>);

impl<T> PathId<T> {
    /// The id, or the problem of a missing item.
    pub(crate) fn or(self, absent: impl FnOnce() -> Problem) -> Answer<T> {
        self.0.ok_or_else(absent)
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathId<T> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self(Path::from_request_parts(parts, state).await.ok().map(|Path(id)| id)))
    }
}

/// A request that changes nothing.
pub(crate) struct Read {
    pub(crate) app: Arc<App>,
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    uri: Uri,
}

impl Read {
    /// The raw query; empty without one.
    pub(crate) fn query(&self) -> &str {
        self.uri.query().unwrap_or("")
    }
}

impl FromRequest<Arc<App>> for Read {
    type Rejection = Infallible;

    async fn from_request(request: Request<Body>, app: &Arc<App>) -> Result<Self, Infallible> {
        let Parts { method, headers, uri, .. } = request.into_parts().0;
        Ok(Self { app: Arc::clone(app), method, headers, uri })
    }
}

/// A request that creates an item from its body, `once`.
pub(crate) struct Create {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) once: Once,
    pub(crate) body: JsonObject,
}

impl FromRequest<Arc<App>> for Create {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, app: &Arc<App>) -> Answer<Self> {
        let (mut parts, body) = request.into_parts();
        let caller = Caller::of(&parts, &app.accounts)?;
        let key = IdempotencyKey::from_request_parts(&mut parts, app).await?;
        let body = JsonObject::from_request(Request::from_parts(parts, body), app).await?;
        let once = key.used_by(caller.id, body.bytes());
        Ok(Self { app: Arc::clone(app), caller, once, body })
    }
}

/// A request to change an existing item. Only PATCH and DELETE have conditions.
pub(crate) struct Write {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) conditions: Conditions,
}

impl FromRequestParts<Arc<App>> for Write {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Answer<Self> {
        let caller = Caller::of(parts, &app.accounts)?;
        let conditions = match parts.method {
            Method::PATCH | Method::DELETE => Conditions::of(&parts.headers),
            _ => Conditions::default(),
        };
        Ok(Self { app: Arc::clone(app), caller, conditions })
    }
}
