//! `POST /v1/auth/user/logout` and `GET /v1/users/me`.

use super::{Caller, UserId, token};
use crate::http::{Answer, Problem, Read, Write, not_stored, rfc3339};
use http::StatusCode;
use serde::Serialize;

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

/// Who I am.
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
    // To its end, and within the gate until then, also when the client leaves.
    app.writes.run(revoke).await??;
    Ok(StatusCode::NO_CONTENT)
}
