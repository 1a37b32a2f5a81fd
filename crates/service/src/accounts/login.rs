//! `POST /v1/auth/user/login`.

use super::attempt::{device_cookie, device_token, refusal};
use super::sessions::Session;
use super::store::Credentials;
use super::token;
use super::types::{PASSWORD_BYTES, account_key, is_nickname};
use super::{Accounts, hashing};
use crate::app::App;
use crate::current;
use crate::http::json::table::{Asked, GivenSecret, Line, optional, required, table};
use crate::http::{
    Answer, ClientAddress, JsonObject, OverTls, Problem, Secret, not_stored, rfc3339,
};
use crate::ops::record::Part;
use axum::extract::State;
use http::{HeaderMap, header};
use madang_guard::hash::{CheckOutcome, Password, PasswordCheck, StoredHash};
use madang_guard::{Attempt, Reservation};
use serde::Serialize;
use std::net::IpAddr;
use std::sync::Arc;

/// Longest nickname accepted; no account has one of more than 64 characters.
const LONGEST_NAME: usize = 256;
/// Longest solution of a challenge.
pub(super) const LONGEST_PROOF: usize = 4096;

table! {
    /// Credentials of a log-in.
    struct Fields: LoginBody (All);
    /// The nickname; the case of ASCII letters does not matter.
    nickname: Line = required("nickname", Line(0..=LONGEST_NAME), "mina");
    /// The password.
    password: GivenSecret = required("password", GivenSecret(*PASSWORD_BYTES.end()), "correct horse");
    /// After a 429 with a `challenge`: its solution, as an ALTCHA widget puts it into its field.
    altcha: Line = optional("altcha", Line(0..=LONGEST_PROOF), "");
}

/// A log-in that succeeded.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LoggedIn {
    /// The nickname as it was registered.
    nickname: String,
    /// Send it as `Authorization: Bearer …`.
    token: String,
    /// When it ends, unless it is logged out before.
    #[schema(format = DateTime)]
    expires_at: String,
}

/// Log in.
///
/// An unknown name and a wrong password are one answer, at one price. Failures are counted for the
/// account together with the address, for each of both alone, and for the password; who is over a
/// limit is answered 429. With a `challenge` in that answer the same attempt succeeds with its
/// solution in `altcha`; a device that logged in before shows its `madang_device` cookie instead.
#[utoipa::path(post, path = "/v1/auth/user/login", tag = "accounts",
    request_body = LoginBody,
    responses(
        (status = 200, description = "Logged in; sets the cookie madang_device", body = LoggedIn),
        (status = 401, description = "Unknown name or wrong password"),
        (status = 429, description = "Too many failures; with `challenge` (ALTCHA) where solving it helps"),
    ))]
pub(super) async fn login(
    State(app): State<Arc<App>>,
    ClientAddress(address): ClientAddress,
    OverTls(secure): OverTls,
    headers: HeaderMap,
    mut body: JsonObject,
) -> Answer {
    let Fields { nickname, password, altcha: proof } = Fields::read(&mut body, Asked::All);
    let (nickname, password) = body.finish((nickname, password))?;
    let accounts = &app.accounts;
    let input = PasswordInput { password, altcha: proof, address, headers: &headers };
    let Some(user) = accounts.attempt(&account_key(&nickname), input).await? else {
        return Err(Problem::unauthorized("unknown nickname or wrong password"));
    };
    accounts.logged_in(user, address, secure, &headers).await
}

/// A password and the other input of an attempt.
pub(super) struct PasswordInput<'r> {
    /// `None` when it is longer than any password.
    pub(super) password: Option<Secret>,
    /// Solution of a challenge.
    pub(super) altcha: Option<String>,
    pub(super) address: IpAddr,
    /// May contain a device token.
    pub(super) headers: &'r HeaderMap,
}

impl Accounts {
    /// [`check`](Self::check), if the guard admits the attempt.
    pub(super) async fn attempt(
        &self,
        key: &str,
        input: PasswordInput<'_>,
    ) -> Answer<Option<Credentials>> {
        // A device token is valid for the present credential. The password is compared with the one stored after the
        // guard, where an attempt may have waited.
        let token = device_token(input.headers);
        let known = match token {
            Some(_) => self.store().credentials(key.to_owned()).await?,
            None => None,
        };
        // The empty password, which no account has, replaces any that is too long.
        let password = input.password.unwrap_or_else(|| Secret::from(String::new()));
        let attempt = Attempt {
            account: key.as_bytes(),
            address: input.address,
            password: password.expose().as_bytes(),
            proof: input.altcha.as_deref().filter(|proof| !proof.is_empty()),
            device_token: token,
            credential: known.as_ref().map_or(&[], |user| user.password_hash.as_bytes()),
            under_load: !self.hasher().has_room(),
        };
        let reservation =
            self.guard().admit(&attempt).await.map_err(|refused| refusal(&refused))?;
        self.check(key, &password, reservation).await
    }

    /// Looks up the account of this name and password. All paths cost one look-up and one hash.
    pub(super) async fn check(
        &self,
        key: &str,
        password: &Secret,
        reservation: Reservation,
    ) -> Answer<Option<Credentials>> {
        let uncompared = Uncompared(Some(reservation));
        let found = self.store().credentials(key.to_owned()).await?;
        // An impossible name or password is still compared: its response must not be faster.
        let possible = is_nickname(key) && PASSWORD_BYTES.contains(&password.expose().len());
        let text = if possible { password.expose() } else { "" };
        let stored = found.as_ref().filter(|_| possible).and_then(stored_hash);
        let old = stored.clone();
        let reservation = uncompared.begin();
        let settle = move |outcome| match outcome {
            CheckOutcome::Right => reservation.succeed(),
            CheckOutcome::Wrong => reservation.fail(),
            CheckOutcome::NotRun => reservation.cancel(),
            // It began without a result: counts as a failure.
            CheckOutcome::Failed => drop(reservation),
        };
        let time = current::time(Part::Hash);
        let check = self.hasher().verify(Password::from(text), stored, settle).await;
        drop(time);
        let check = check.map_err(|error| hashing::problem(&error))?;
        let (PasswordCheck::Right { needs_upgrade }, Some(user)) = (check, found) else {
            return Ok(None);
        };
        if let Some(old) = old.filter(|_| needs_upgrade) {
            self.renew_hash(&user, old, Password::from(text));
        }
        Ok(Some(user))
    }

    /// Hashes a password again with the present scheme, after the response. One at a time: others, and those that a
    /// busy pool refuses, wait for a later log-in.
    fn renew_hash(&self, user: &Credentials, old: StoredHash, password: Password) {
        let Ok(permit) = Arc::clone(&self.inner.renewals).try_acquire_owned() else { return };
        let (this, id) = (self.clone(), user.id);
        tokio::spawn(async move {
            let renewed = match this.hasher().hash(password).await {
                Ok(new) => {
                    let (old, new) = (old.as_str().to_owned(), new.as_str().to_owned());
                    this.store().renew_hash(id, old, new).await.map_err(|e| e.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            match renewed {
                Ok(renewed) => tracing::debug!(user = id, renewed, "renewed an old password hash"),
                Err(error) => tracing::debug!(user = id, error, "an old hash was not renewed"),
            }
            drop(permit);
        });
    }

    /// The response of a log-in, with a token for the user and a device token for the device. Stores the session.
    pub(super) async fn logged_in(
        &self,
        user: Credentials,
        address: IpAddr,
        secure: bool,
        headers: &HeaderMap,
    ) -> Answer {
        // A token issued in the second of a log-out everywhere must be valid.
        let now = token::now().max(self.inner.revoked.cutoff(user.id) + 1);
        let issued = self.inner.tokens.issue(user.id, now);
        let (token, claims) =
            issued.map_err(|e| Problem::internal(format!("no random bytes for a token: {e}")))?;
        self.store().begin_session(Session::new(claims, headers)).await?;
        let expires_at = rfc3339::format_utc(claims.expires_at.saturating_mul(1000));
        let key = account_key(&user.nickname);
        let guard = self.guard();
        let device = guard.device_token(address, key.as_bytes(), user.password_hash.as_bytes());
        let body = LoggedIn { nickname: user.nickname, token, expires_at };
        let mut response = not_stored(body);
        if let Some(cookie) = device.and_then(|token| device_cookie(&token, secure)) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        Ok(response)
    }
}

/// A reservation until its password is passed to the hash pool. A client that leaves before, or a store
/// that does not answer, is no failure: nothing was compared.
struct Uncompared(Option<Reservation>);

impl Uncompared {
    /// Returns the reservation, whose drop is a failure.
    fn begin(mut self) -> Reservation {
        self.0.take().expect("taken only here, once")
    }
}

impl Drop for Uncompared {
    fn drop(&mut self) {
        if let Some(reservation) = self.0.take() {
            reservation.cancel();
        }
    }
}

/// The stored hash; `None` for one that is malformed or too costly. Nobody can log in with it, and checking costs as
/// much as for an unknown user.
fn stored_hash(user: &Credentials) -> Option<StoredHash> {
    match user.password_hash.parse() {
        Ok(hash) => Some(hash),
        Err(error) => {
            tracing::warn!(user = user.id, %error, "rejected a stored password hash");
            None
        }
    }
}
