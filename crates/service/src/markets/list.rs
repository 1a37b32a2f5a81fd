//! `GET /v1/markets`: all of them, or those that are searched for.

use super::index::{After, Filter, Order, RankedMarket, Words};
use super::represent::MarketItem;
use super::{Inner, Markets, all_markets};
use crate::accounts::{LONGEST_REGION, RegionError, RegionId, Regions};
use crate::http::page::{self, Page, Query, read_cursor, write_cursor};
use crate::http::{Answer, FieldError, Problem, Read};
use crate::response_cache::{Wanted, no_listing};
use crate::store::StoreError;
use http::HeaderMap;
use madang_path::Point;
use std::sync::Arc;

/// Longest search, in characters.
pub(crate) const LONGEST: usize = 100;

/// Types of markets: permanent, every fifth day, every third day.
const KINDS: [&str; 3] = ["상설장", "5일장", "3일장"];

/// Markets that fulfil everything that is asked for.
///
/// Words of `q` and `goods` match anywhere; a word of one character matches the beginning of a name
/// (`q` alone) or of one of the goods (both). Several words must all match. Hangul is compared
/// composed, letters without regard to case. Without `sort`: by distance with `near`, else what
/// matches `q` best (called so, beginning so, in the name, elsewhere), else by name.
#[utoipa::path(get, path = "/v1/markets", tag = "markets", operation_id = "listMarkets",
    params(
        ("q" = Option<String>, Query, description = "words of name, address, region (old and new names) or goods; at most 100 characters"),
        ("region" = Option<String>, Query, description = "province or municipality in Korean or English, such as 서울, 강원도, Jongno-gu"),
        ("goods" = Option<String>, Query, description = "words of the goods alone, such as 수산물, or 꽃 for goods that begin so; at most 100 characters"),
        ("type" = Option<String>, Query, description = "상설장, 5일장, 3일장, or several joined with +: markets that are at least that"),
        ("near" = Option<String>, Query, description = "latitude,longitude: items get distanceMetres"),
        ("sort" = Option<String>, Query, description = "name, views (most first), or distance (with near; without markets of unknown position)"),
        ("limit" = Option<u32>, Query),
        ("cursor" = Option<String>, Query),
    ),
    responses(
        (status = 200, description = "One page", body = Page<MarketItem>),
        (status = 304, description = "The client has it already (If-None-Match)"),
    ))]
pub(super) async fn list(read: Read) -> Answer {
    let markets = &read.app.markets;
    let asked = Asked::parse(read.query(), markets.regions()).map_err(Problem::invalid)?;
    markets.page(asked, &read.headers).await
}

/// A page that a request asks for.
pub(crate) struct Asked {
    filter: Filter,
    near: Option<Point>,
    order: Order,
    limit: usize,
    after: Option<After>,
    /// Name of the listing without the page, for cursors and cache keys.
    listing: String,
}

impl Asked {
    /// Reads the query, and reports all its errors at once.
    pub(crate) fn parse(query: &str, regions: &Regions) -> Result<Asked, Vec<FieldError>> {
        let written = Query::of(query);
        // A form also sends empty fields.
        let text = |name| written.get(name).filter(|text| !text.is_empty());
        let mut errors = Vec::new();
        let mut or = |error: FieldError| errors.push(error);
        let words = read_words("q", text("q")).map_err(&mut or);
        let goods = read_words("goods", text("goods")).map_err(&mut or);
        let region = text("region").map(|name| read_region(name, regions)).transpose();
        let region = region.map_err(&mut or);
        let kinds = read_kinds(text("type").unwrap_or("")).map_err(&mut or);
        let near = written.get("near").map(|near| page::point("near", near)).transpose();
        let near = near.map_err(&mut or);
        let limit = page::limit(written.get("limit")).map_err(&mut or);
        // With an invalid `near`, `sort=distance` is no further error.
        let centre = near.unwrap_or(Some(Point { lat: 0.0, lon: 0.0, ele: None }));
        let order = read_order(written.get("sort"), centre).map_err(&mut or);
        let (Ok(words), Ok(goods), Ok(region), Ok(kinds), Ok(near), Ok(limit), Ok(order)) =
            (words, goods, region, kinds, near, limit, order)
        else {
            return Err(errors);
        };
        let filter = Filter { words, goods, region, kinds };
        let listing = listing(&filter, &order, near);
        let after = written.get("cursor").map(|cursor| read_cursor(&listing, cursor)).transpose();
        let after = after.map_err(|error| vec![error])?;
        Ok(Asked { filter, near, order, limit, after, listing })
    }
}

/// The name of a listing: all parameters that change its items or their order. No part contains the separator: words
/// have no control characters.
fn listing(filter: &Filter, order: &Order, near: Option<Point>) -> String {
    let order = match order {
        Order::Relevance => "relevance",
        Order::Name => "name",
        Order::Views => "views",
        Order::Distance(_) => "distance",
    };
    let Filter { words, goods, region, kinds } = filter;
    let region = region.map(|id| id.to_string()).unwrap_or_default();
    let near = near.map(|near| format!("{},{}", near.lat, near.lon)).unwrap_or_default();
    let (words, goods, kinds) = (words.key(), goods.key(), kinds.join("+"));
    ["markets", &words, &goods, &region, &kinds, order, &near].join("\u{1}")
}

/// Reads the words of a search. Refuses control characters and more than [`LONGEST`] characters.
pub(crate) fn read_words(field: &str, text: Option<&str>) -> Result<Words, FieldError> {
    let text = text.unwrap_or_default();
    if text.chars().nth(LONGEST).is_some() {
        return Err(FieldError::new(field, format!("at most {LONGEST} characters")));
    }
    if text.chars().any(|c| c.is_control() && !c.is_whitespace()) {
        return Err(FieldError::new(field, "text without control characters"));
    }
    Ok(Words::of(text))
}

fn read_region(name: &str, regions: &Regions) -> Result<RegionId, FieldError> {
    if name.chars().nth(LONGEST_REGION).is_some() {
        return Err(FieldError::new("region", RegionError::Unknown.to_string()));
    }
    let name = super::folded(name);
    regions.find(&name).map_err(|error| FieldError::new("region", error.to_string()))
}

/// `+` in a query is a space.
fn read_kinds(text: &str) -> Result<Vec<String>, FieldError> {
    let wrong = || FieldError::new("type", "상설장, 5일장, 3일장, or several joined with +");
    // Folding would remove them.
    if text.chars().any(char::is_control) {
        return Err(wrong());
    }
    let mut kinds = Vec::new();
    for part in super::folded(text).split([' ', '+']).filter(|part| !part.is_empty()) {
        if !KINDS.contains(&part) {
            return Err(wrong());
        }
        kinds.push(part.to_owned());
    }
    kinds.sort();
    kinds.dedup();
    Ok(kinds)
}

fn read_order(sort: Option<&str>, near: Option<Point>) -> Result<Order, FieldError> {
    match (sort, near) {
        (None | Some("distance"), Some(centre)) => Ok(Order::Distance(centre)),
        (None, None) => Ok(Order::Relevance),
        (Some("name"), _) => Ok(Order::Name),
        (Some("views"), _) => Ok(Order::Views),
        (Some("distance"), None) => {
            Err(FieldError::new("sort", "distance needs near=latitude,longitude"))
        }
        (Some(_), _) => Err(FieldError::new("sort", "name, views or distance")),
    }
}

impl Markets {
    async fn page(&self, asked: Asked, headers: &HeaderMap) -> Answer {
        let key = match asked.after {
            None => format!("{}\u{1}{}", asked.limit, asked.listing),
            Some((sort, id)) => {
                format!("{}\u{1}{}\u{1}{:x}.{id}", asked.limit, asked.listing, sort.to_bits())
            }
        };
        if let Some((_, id)) = asked.after
            && self.index().number(id).is_none()
        {
            return Err(Problem::invalid_field("cursor", "a nextCursor of the same listing"));
        }
        // The order by views changes every moment.
        let kept = asked.order != Order::Views;
        let wanted = Wanted { key: &key, stamps: &[all_markets()], kept };
        let this = self.clone();
        let compute = Arc::clone(self.inner.responses.compute());
        let make = move || async move {
            let found = compute.run(move |()| this.found(&asked)).await;
            Ok(Some(found.map_err(StoreError::from)?))
        };
        let Inner { responses, lists, .. } = &*self.inner;
        responses.answer(lists, wanted, headers, make, no_listing).await
    }

    fn found(&self, asked: &Asked) -> Page<MarketItem> {
        let index = self.index();
        let Asked { filter, near, order, limit, after, listing } = asked;
        let views = self.inner.views.get().map(|views| views.counts());
        let views_of = |number| {
            let views = views.as_ref().and_then(|all| all.get(&index.market(number).id));
            views.copied().unwrap_or(0)
        };
        let found = index.page(filter, order, *after, limit + 1, views_of);
        Page::cut(
            found.unwrap_or_default(),
            *limit,
            |last: &RankedMarket| write_cursor(listing, last.sort, index.market(last.number).id),
            |found| {
                let market = index.market(found.number);
                let metres = match (order, near) {
                    (Order::Distance(_), _) => Some(found.sort),
                    (_, Some(near)) => {
                        market.point().map(|point| madang_path::distance_metres(near, &point))
                    }
                    (_, None) => None,
                };
                MarketItem::new(market, self.regions(), metres)
            },
        )
    }
}
