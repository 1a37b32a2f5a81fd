//! `POST /v1/auth/user/register`.

use super::attempt::refusal;
use super::regions::{self, RegionError, RegionId};
use super::store::NewUser;
use super::types::{NICKNAME_CHARS, NICKNAME_RULE, PASSWORD_BYTES, is_nickname};
use super::{Accounts, UserId, hashing};
use crate::app::App;
use crate::http::{ClientAddress, JsonObject, Problem, Secret};
use crate::idempotency::{Done, IdempotencyKey};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode, header};
use madang_guard::hash::{Password, PoolError};
use serde::Serialize;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a client signs up with.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes a body that is read field by field")]
pub(super) struct RegisterBody {
    /// 2 to 64 letters (A to Z), digits, `_`, `-` or Hangul. Names that differ in the case of letters
    /// alone are the same.
    #[schema(example = "mina")]
    nickname: String,
    /// 8 to 1,024 bytes of UTF-8.
    #[schema(format = Password)]
    password: String,
    /// A province or municipality, in Korean or English.
    #[schema(example = "서울특별시 종로구")]
    region_name: String,
}

/// A new account.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Registered {
    /// The user.
    id: UserId,
    /// The nickname as it was understood.
    nickname: String,
    /// The region, in Korean.
    region_name: String,
    /// The region, in English.
    region_name_en: String,
}

/// Sign up.
///
/// With an `Idempotency-Key` the same sign-up sent again answers as the first did; the password is not
/// compared then, and nothing about it is kept beside the key.
#[utoipa::path(post, path = "/v1/auth/user/register", tag = "accounts",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to send the request again")),
    request_body = RegisterBody,
    responses(
        (status = 201, description = "The account", body = Registered),
        (status = 409, description = "The nickname is taken"),
        (status = 422, description = "A field is missing or not accepted"),
        (status = 429, description = "Too many accounts were made from this address"),
        (status = 503, description = "Too many passwords are being hashed"),
    ))]
pub(super) async fn register(
    State(app): State<Arc<App>>,
    ClientAddress(address): ClientAddress,
    key: IdempotencyKey,
    mut body: JsonObject,
) -> Result<Response, Problem> {
    let accounts = &app.accounts;
    let nickname = body.text("nickname", NICKNAME_CHARS);
    if nickname.as_deref().is_some_and(|name| !is_nickname(name)) {
        body.refuse("nickname", NICKNAME_RULE);
    }
    let password = body.secret("password", PASSWORD_BYTES);
    let region = accounts.region(&mut body);
    let (nickname, password, region) = body.finish((nickname, password, region))?;
    let new = SignUp { nickname, password, region, key };
    let done = accounts.sign_up(address, &new).await?;
    Ok(done.answer(|id| {
        let (region_name, region_name_en) = accounts.regions().full_name(region);
        let body = Registered { id, nickname: new.nickname, region_name, region_name_en };
        let location = [(header::LOCATION, HeaderValue::from_static("/v1/users/me"))];
        (StatusCode::CREATED, location, Json(body)).into_response()
    }))
}

/// A sign-up whose fields are right.
struct SignUp {
    nickname: String,
    password: Secret,
    region: RegionId,
    key: IdempotencyKey,
}

impl Accounts {
    fn region(&self, body: &mut JsonObject) -> Option<RegionId> {
        const FIELD: &str = "region_name";
        let name = body.text(FIELD, 1..=regions::LONGEST)?;
        match self.regions().find(&name) {
            Ok(region) => Some(region),
            Err(error @ (RegionError::Unknown | RegionError::Ambiguous(_))) => {
                body.refuse(FIELD, error.to_string());
                None
            }
        }
    }

    /// Makes an account. A taken name is found before a hash is spent on it, and once more by the
    /// insert: of several at once exactly one gets it.
    async fn sign_up(&self, address: IpAddr, new: &SignUp) -> Result<Done<UserId>, Problem> {
        let place =
            self.guard().admit_sign_up(address).await.map_err(|refused| refusal(&refused))?;
        if let Some(done) = self.made_before(new).await? {
            return Ok(done);
        }
        let hash = match self.hasher().hash(Password::from(new.password.expose())).await {
            Ok(hash) => hash,
            Err(error) => {
                if matches!(error, PoolError::Busy { .. } | PoolError::Closed) {
                    place.cancel();
                }
                return Err(hashing::problem(&error));
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let user = NewUser {
            nickname: new.nickname.clone(),
            password_hash: hash.as_str().to_owned(),
            region: new.region,
            created_at_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
        };
        if let Some(id) = self.store().insert_once(user, new.key.clone()).await? {
            return Ok(Done::now(id));
        }
        self.made_before(new).await?.ok_or_else(taken)
    }

    /// The account that the same request has made before; nothing when the name is free.
    async fn made_before(&self, new: &SignUp) -> Result<Option<Done<UserId>>, Problem> {
        let Some(found) = self.store().credentials(new.nickname.clone()).await? else {
            return Ok(None);
        };
        let again = self.store().was_made_by(new.key.clone(), found.id, &new.nickname, new.region);
        if again.await? {
            return Ok(Some(Done { outcome: found.id, replayed: true }));
        }
        Err(taken())
    }
}

fn taken() -> Problem {
    Problem::conflict("nickname-taken", "this nickname is taken")
}
