//! Changes by the owner of an account: a new password, log out everywhere, delete it.
//!
//! All three end every token that was issued before, on every node. Device tokens end with their password. Changes of
//! the account itself require the password: a stolen token must not suffice. Wrong guesses count like failed log-ins.

use super::login::{LONGEST_PROOF, LoggedIn, PasswordInput};
use super::store::Credentials;
use super::types::{PASSWORD_BYTES, account_key};
use super::{Accounts, Caller, token};
use crate::http::json::table::{Asked, GivenSecret, Line, NewSecret, optional, required, table};
use crate::http::{Answer, ClientAddress, JsonObject, OverTls, Problem, Write};
use http::{HeaderMap, StatusCode};

table! {
    /// A new password.
    struct Passwords: PasswordBody (All);
    /// The password until now.
    password: GivenSecret = required("password", GivenSecret(*PASSWORD_BYTES.end()), "correct horse");
    /// The new one: 8 to 1,024 bytes of UTF-8.
    new_password: NewSecret = required("newPassword", NewSecret(PASSWORD_BYTES), "battery staple");
    /// After a 429 with a `challenge`: its solution.
    altcha: Line = optional("altcha", Line(0..=LONGEST_PROOF), "");
}

table! {
    /// Proof that it is the owner who deletes an account.
    struct Owner: DeleteBody (All);
    /// The password.
    password: GivenSecret = required("password", GivenSecret(*PASSWORD_BYTES.end()), "correct horse");
    /// After a 429 with a `challenge`: its solution.
    altcha: Line = optional("altcha", Line(0..=LONGEST_PROOF), "");
}

/// Change the password.
///
/// All tokens and device tokens of the account end, also those of this request; the answer has new ones.
#[utoipa::path(post, path = "/v1/auth/user/password", tag = "accounts", operation_id = "changePassword",
    security(("bearer" = [])),
    request_body = PasswordBody,
    responses(
        (status = 200, description = "Changed; a new token", body = LoggedIn),
        (status = 403, description = "The password is wrong"),
        (status = 429, description = "Too many failures; with `challenge` (ALTCHA) where solving it helps"),
    ))]
pub(super) async fn change_password(
    ClientAddress(address): ClientAddress,
    OverTls(secure): OverTls,
    Write { app, caller, .. }: Write,
    headers: HeaderMap,
    mut body: JsonObject,
) -> Answer {
    let Passwords { password, new_password, altcha } = Passwords::read(&mut body, Asked::All);
    let (password, new) = body.finish((password, new_password))?;
    let input = PasswordInput { password, altcha, address, headers: &headers };
    let accounts = app.accounts.clone();
    let user = accounts.prove(&caller, input).await?;
    let hash = accounts.hash(&new).await?;
    let (this, revocation) = (accounts.clone(), accounts.revocation(&caller));
    let user = Credentials { password_hash: hash.clone(), ..user };
    app.writes.run(async move { this.store().change_password(revocation, hash).await }).await??;
    accounts.logged_in(user, address, secure, &headers).await
}

/// Log out everywhere.
///
/// Every token that was issued until now is refused from this answer on, also after a restart.
#[utoipa::path(post, path = "/v1/auth/user/logout-all", tag = "accounts", operation_id = "logoutAll",
    security(("bearer" = [])),
    responses(
        (status = 204, description = "Logged out everywhere"),
    ))]
pub(super) async fn log_out_everywhere(Write { app, caller, .. }: Write) -> Answer<StatusCode> {
    let accounts = app.accounts.clone();
    let revocation = accounts.revocation(&caller);
    app.writes.run(async move { accounts.store().end_tokens(revocation).await }).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Delete the account.
///
/// Nobody can log in to it from this answer on, and its nickname is free. Runs, likes and schedules go with it; tracks,
/// posts, articles and comments stay without a name.
#[utoipa::path(post, path = "/v1/auth/user/delete", tag = "accounts", operation_id = "deleteAccount",
    security(("bearer" = [])),
    request_body = DeleteBody,
    responses(
        (status = 204, description = "Deleted"),
        (status = 403, description = "The password is wrong"),
        (status = 429, description = "Too many failures; with `challenge` (ALTCHA) where solving it helps"),
    ))]
pub(super) async fn delete_account(
    ClientAddress(address): ClientAddress,
    Write { app, caller, .. }: Write,
    headers: HeaderMap,
    mut body: JsonObject,
) -> Answer<StatusCode> {
    let Owner { password, altcha } = Owner::read(&mut body, Asked::All);
    let (password,) = body.finish((password,))?;
    let input = PasswordInput { password, altcha, address, headers: &headers };
    let accounts = app.accounts.clone();
    accounts.prove(&caller, input).await?;
    let revocation = accounts.revocation(&caller);
    app.writes.run(async move { accounts.store().delete(revocation).await }).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Revocation of all tokens of a user that were issued until now. Times in seconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct Revocation {
    pub(super) user: super::UserId,
    /// The last second of issue that is refused.
    pub(super) until: i64,
    /// Expiry of the last of these tokens.
    pub(super) expires_at: i64,
    pub(super) now: i64,
}

impl Accounts {
    /// The account of the caller, who gave its password; 403 for a wrong one.
    async fn prove(
        &self,
        caller: &Caller,
        input: PasswordInput<'_>,
    ) -> Result<Credentials, Problem> {
        let user = self.store().find(caller.id).await?.ok_or_else(Problem::account_gone)?;
        let proved = self.attempt(&account_key(&user.nickname), input).await?;
        // Meanwhile the name may have become that of another account.
        proved
            .filter(|found| found.id == caller.id)
            .ok_or_else(|| Problem::forbidden("the password is wrong"))
    }

    /// Revokes all tokens of the caller, this one included.
    fn revocation(&self, caller: &Caller) -> Revocation {
        let now = token::now();
        Revocation {
            user: caller.id,
            // The token may come from a node whose clock is ahead.
            until: now.max(caller.claims.issued_at),
            expires_at: caller.claims.expires_at.max(self.inner.tokens.expiry(now)),
            now,
        }
    }
}
