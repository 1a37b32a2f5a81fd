//! `POST /v1/auth/user/register`.

use super::attempt::refusal;
use super::regions::{self, RegionId};
use super::store::NewUser;
use super::types::{Nickname, PASSWORD_BYTES};
use super::{Accounts, UserId};
use crate::app::App;
use crate::http::json::table::{Asked, Line, NewSecret, required, table};
use crate::http::rfc3339::now_ms;
use crate::http::{ClientAddress, JsonObject, Problem, Secret};
use crate::idempotency::{Done, IdempotencyKey};
use crate::store::Result;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::net::IpAddr;
use std::sync::Arc;

table! {
    /// A sign-up.
    struct Fields: RegisterBody (All);
    /// 2 to 64 letters (A to Z), digits, `_`, `-` or Hangul. Names that differ in the case of letters
    /// alone are the same.
    nickname: Nickname = required("nickname", Nickname, "mina");
    /// 8 to 1,024 bytes of UTF-8.
    password: NewSecret = required("password", NewSecret(PASSWORD_BYTES), "correct horse");
    /// A province or municipality, in Korean or English.
    region_name: Line = required(REGION, Line(1..=regions::LONGEST), "서울특별시 종로구");
}

const REGION: &str = "region_name";

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
    params(("Idempotency-Key" = Option<String>, Header)),
    request_body = RegisterBody,
    responses(
        (status = 201, description = "The account", body = Registered),
        (status = 409, description = "The nickname is taken"),
        (status = 429, description = "Too many accounts were made from this address"),
    ))]
pub(super) async fn register(
    State(app): State<Arc<App>>,
    ClientAddress(address): ClientAddress,
    key: IdempotencyKey,
    mut body: JsonObject,
) -> Result<Response, Problem> {
    let accounts = &app.accounts;
    let Fields { nickname, password, region_name } = Fields::read(&mut body, Asked::All);
    let region = region_name.and_then(|name| accounts.region(&mut body, &name));
    let (nickname, password, region) = body.finish((nickname, password, region))?;
    let new = SignUp { nickname, password, region, key };
    let done = accounts.sign_up(address, &new).await?;
    Ok(done.answer(|id| {
        let (region_name, region_name_en) = accounts.regions().full_name(region);
        let body = Registered { id, nickname: new.nickname, region_name, region_name_en };
        crate::http::created("/v1/users/me".to_owned(), body)
    }))
}

/// A valid sign-up.
struct SignUp {
    nickname: String,
    password: Secret,
    region: RegionId,
    key: IdempotencyKey,
}

impl Accounts {
    fn region(&self, body: &mut JsonObject, name: &str) -> Option<RegionId> {
        self.regions().find(name).map_err(|error| body.refuse(REGION, error.to_string())).ok()
    }

    /// Makes an account. A taken name is detected before a hash is spent on it, and again by the
    /// insert: of concurrent sign-ups exactly one gets the name.
    async fn sign_up(&self, address: IpAddr, new: &SignUp) -> Result<Done<UserId>, Problem> {
        let place =
            self.guard().admit_sign_up(address).await.map_err(|refused| refusal(&refused))?;
        match self.origin(new).await {
            Ok(Origin::Never) => {}
            Ok(origin) => return origin.answer(),
            Err(error) => {
                place.cancel();
                return Err(error.into());
            }
        }
        // From here on it counts, whatever its outcome: if a full pool did not count, its response would reveal free
        // names without limit.
        let user = NewUser {
            nickname: new.nickname.clone(),
            password_hash: self.hash(&new.password).await?,
            region: new.region,
            created_at_ms: now_ms(),
        };
        if let Some(id) = self.store().insert(user, new.key.clone()).await? {
            return Ok(Done::now(id));
        }
        self.origin(new).await?.answer()
    }

    /// Looks up the origin of the account of this name.
    async fn origin(&self, new: &SignUp) -> Result<Origin> {
        let Some(found) = self.store().credentials(new.nickname.clone()).await? else {
            return Ok(Origin::Never);
        };
        let again = self.store().was_made_by(new.key.clone(), found.id, &new.nickname, new.region);
        Ok(if again.await? { Origin::ByThis(found.id) } else { Origin::ByOther })
    }
}

/// Origin of the account of a name.
enum Origin {
    /// There is no account.
    Never,
    /// The same request, sent before.
    ByThis(UserId),
    ByOther,
}

impl Origin {
    /// The result of a sign-up that does not make the account itself. `Never` after a failed insert: the name was
    /// taken for a moment.
    fn answer(self) -> Result<Done<UserId>, Problem> {
        match self {
            Self::ByThis(id) => Ok(Done { outcome: id, replayed: true }),
            Self::Never | Self::ByOther => {
                Err(Problem::conflict("nickname-taken", "this nickname is taken"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::tests::{fresh, stop_hashing};
    use crate::config::Rate;
    use http::StatusCode;
    use madang_guard::hash::Password;
    use std::time::Duration;

    #[tokio::test]
    async fn a_sign_up_counts_once_its_name_was_looked_up_also_when_the_pool_is_full() {
        let (_dir, _, accounts) = fresh(|settings| {
            settings.guard.sign_up = Rate { count: 5, window: Duration::from_secs(3600) };
            settings.accounts.hash_threads = Some(1);
            settings.accounts.hash_queue = 1;
        });
        let go_on = stop_hashing(&accounts).await;
        let _waiting = accounts.hasher().verify(Password::from("x"), None, |_| {});
        let address = "192.0.2.1".parse().unwrap();
        let mut statuses = Vec::new();
        for i in 0..7 {
            let new = SignUp {
                nickname: format!("free-{i}"),
                password: Secret::from("correct-horse".to_owned()),
                region: 11,
                key: IdempotencyKey::default(),
            };
            statuses.push(accounts.sign_up(address, &new).await.err().unwrap().status());
        }
        drop(go_on);
        assert_eq!(statuses[..5], [StatusCode::SERVICE_UNAVAILABLE; 5]);
        assert_eq!(statuses[5..], [StatusCode::TOO_MANY_REQUESTS; 2]);
    }
}
