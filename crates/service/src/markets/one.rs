//! `GET /v1/markets/{id}`.

use super::represent::{MarketBody, MarketItem};
use super::types::MarketId;
use super::views::Visitor;
use super::{Markets, all_markets};
use crate::accounts::MaybeCaller;
use crate::http::{Answer, ClientAddress, PathId, Problem, Read};
use crate::response_cache::Wanted;
use axum::response::Response;
use http::{HeaderMap, Method, header};

/// One market.
///
/// `viewCount` counts visitors, each once a day: users by their account, all others by network (an
/// IPv4 address or an IPv6 /56) and browser. This request is counted soon after its answer, also
/// when that is a 304, but not for HEAD.
#[utoipa::path(get, path = "/v1/markets/{id}", tag = "markets", operation_id = "getMarket",
    security((), ("bearer" = [])),
    params(("id" = i64, Path, description = "Id of the market")),
    responses(
        (status = 200, description = "The market", body = MarketBody),
        (status = 304, description = "The client has it already (If-None-Match)"),
        (status = 404, description = "There is no such market"),
    ))]
pub(super) async fn one(
    caller: MaybeCaller,
    address: ClientAddress,
    id: PathId<MarketId>,
    Read { app, method, headers, .. }: Read,
) -> Answer {
    let missing = || Problem::not_found("there is no market with this id");
    let id = id.or(missing)?;
    let response = app.markets.detail(id, &headers).await?.ok_or_else(missing)?;
    if method == Method::GET {
        let agent = headers.get(header::USER_AGENT).map_or(&b""[..], |value| value.as_bytes());
        let visitor = caller.0.map_or(Visitor::Browser(agent), |caller| Visitor::User(caller.id));
        app.markets.seen(id, address.0, visitor);
    }
    Ok(response)
}

impl Markets {
    async fn detail(&self, id: MarketId, headers: &HeaderMap) -> Answer<Option<Response>> {
        // Cheap to check in memory: a missing market takes no place in the cache.
        if self.index().number(id).is_none() {
            return Ok(None);
        }
        let key = id.to_string();
        let wanted = Wanted { key: &key, stamps: &[all_markets()], kept: true };
        let this = self.clone();
        let make = move || async move {
            let index = this.index();
            let market = index.number(id).map(|number| index.market(number));
            Ok(market.map(|market| MarketItem::new(market, this.regions(), None)))
        };
        let found = self.inner.responses.get_dynamic(&self.inner.details, wanted, headers, make);
        let views = self.inner.views.get().map_or(0, |views| views.count(id));
        let views = i64::try_from(views).unwrap_or(i64::MAX);
        Ok(found.await?.map(|body| body.respond(&[("viewCount", views.into())], headers)))
    }
}
