//! `GET /v1/posts`: by area, category and words, newest, cheapest or dearest first; and `POST`.

use super::area::{Area, listing};
use super::draft::{self, LONGEST_TOWN, Names, NewPostBody, find_city, find_state};
use super::represent::PostItem;
use super::types::{Order, PostSummary};
use super::{Asked, Posts, all_contents};
use crate::accounts::{Accounts, Regions};
use crate::http::json::one_line;
use crate::http::page::{self, Page, Query, write_whole_cursor};
use crate::http::{Answer, Create, FieldError, Problem, Read};
use crate::markets::{Words, read_words};
use crate::response_cache::{Wanted, no_listing};
use crate::search::Hits;
use http::HeaderMap;
use serde::Serialize;

/// Posts of an area and a category, or those of them that are searched for.
///
/// Words of `q` match anywhere in title, item and content; a word of one character matches the beginning of a
/// word. All words must match. Hangul is compared composed, letters without regard to case. A page of a search
/// may be short, or empty, and still have a next one.
///
/// The listing of a municipality has the posts of its districts in it. A town that nobody has named yet
/// is an empty page.
#[utoipa::path(get, path = "/v1/posts", tag = "posts", operation_id = "listPosts",
    params(
        ("q" = Option<String>, Query, description = "words of title, item or content; at most 100 characters"),
        ("state" = Option<String>, Query, description = "province, in Korean or English"),
        ("city" = Option<String>, Query, description = "municipality, or a district of one; of `state` if that is given"),
        ("town" = Option<String>, Query, description = "읍, 면 or 동 of `city`"),
        ("category" = Option<String>, Query, description = "one of `GET /v1/categories`: its slug, or its name in Korean or English"),
        ("sort" = Option<String>, Query, description = "newest (default), price (cheapest first) or -price (dearest first)"),
        ("limit" = Option<u32>, Query),
        ("cursor" = Option<String>, Query),
    ),
    responses(
        (status = 200, description = "One page", body = Page<PostItem>),
        (status = 304, description = "The client has it already (If-None-Match)"),
    ))]
pub(super) async fn list(read: Read) -> Answer {
    read.app.posts.listing(&read.app.accounts, read.query(), &read.headers).await
}

/// The post that was made.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatedPost {
    /// Its identifier.
    id: i64,
}

/// Makes a post of the caller's own.
#[utoipa::path(post, path = "/v1/posts", tag = "posts", operation_id = "createPost",
    security(("bearer" = [])),
    params(("Idempotency-Key" = Option<String>, Header)),
    request_body = NewPostBody,
    responses(
        (status = 201, description = "Made; `Location` leads to it", body = CreatedPost),
    ))]
pub(super) async fn create(create: Create) -> Answer {
    let Create { app, caller, once, body } = create;
    let new = draft::post(body, app.posts.names(&app.accounts), caller.id)?;
    let posts = app.posts.store().clone();
    let made = app.writes.run(async move { posts.create(new, once).await }).await??;
    Ok(made.answer(|id| crate::http::created(format!("/v1/posts/{id}"), CreatedPost { id })))
}

/// Reads a query, and reports all its errors at once; those of a cursor last, because it belongs to the listing that
/// the other parameters name.
pub(crate) fn read(query: &str, names: Names<'_>) -> Result<(Asked, Words, usize), Problem> {
    let written = Query::of(query);
    let [state, city, town] = ["state", "city", "town"].map(|name| written.get(name));
    let area = area(names.regions, state, city, town);
    let category = written.get("category").map(|name| names.category(name)).transpose();
    let order = written.get("sort").map_or(Ok(Order::Newest), find_order);
    let words = read_words("q", written.get("q"));
    match (words, area, category, order) {
        (Ok(words), Ok(area), Ok(category), Ok(order)) => {
            let asked = Asked { area, category, order, after: None };
            let (limit, after) = page::asked(query, &name(&asked, &words))?;
            Ok((Asked { after, ..asked }, words, limit))
        }
        (words, area, category, order) => {
            let errors = [words.err(), area.err(), category.err(), order.err()];
            Err(Problem::invalid(errors.into_iter().flatten().collect()))
        }
    }
}

fn area(
    regions: &Regions,
    state: Option<&str>,
    city: Option<&str>,
    town: Option<&str>,
) -> Result<Area, FieldError> {
    let wrong = |detail: &str| FieldError::new("town", detail);
    let town = town.map(|town| {
        let read = one_line(town.trim(), 1..=LONGEST_TOWN);
        read.ok_or_else(|| wrong("a text of 1 to 40 characters in one line"))
    });
    let town = town.transpose()?;
    let state = state.map(|text| find_state(regions, text)).transpose()?;
    let city = city.map(|text| find_city(regions, text, state)).transpose()?;
    Ok(match (state, city, town) {
        (_, None, Some(_)) => return Err(wrong("only together with its city")),
        (_, Some(city), Some(town)) => Area::Town(city, town),
        (_, Some(city), None) => Area::City(city),
        (Some(state), None, None) => Area::State(state),
        (None, None, None) => Area::Everywhere,
    })
}

fn find_order(word: &str) -> Result<Order, FieldError> {
    let found = Order::WORDS.iter().find(|(name, _)| *name == word);
    found.map(|(_, order)| *order).ok_or_else(|| {
        FieldError::new("sort", "newest, price (lowest first) or -price (highest first)")
    })
}

/// The name of a listing without the page, to which cursors belong. Areas and categories are ids, independent of their
/// spelling. No part contains the separator: neither towns nor words have control characters.
fn name(asked: &Asked, words: &Words) -> String {
    let category = asked.category.map_or_else(|| "*".to_owned(), |id| id.to_string());
    let all = format!("posts:{}:{category}:{}", asked.order.as_str(), asked.area);
    if words.is_empty() { all } else { format!("{all}\u{1}{}", words.key()) }
}

impl Posts {
    /// The page of a query.
    pub(super) async fn listing(
        &self,
        accounts: &Accounts,
        query: &str,
        headers: &HeaderMap,
    ) -> Answer {
        let (asked, words, limit) = read(query, self.names(accounts))?;
        let name = name(&asked, &words);
        let key = match asked.after {
            None => format!("{limit} {name}"),
            Some((price, id)) => format!("{limit}.{price}.{id} {name}"),
        };
        let mut stamps = vec![listing(&asked.area, asked.category)];
        if !words.is_empty() {
            stamps.push(all_contents());
        }
        let kept = asked.after.is_none() || self.responses.keeps_later_pages();
        let wanted = Wanted { key: &key, stamps: &stamps, kept };
        let (this, accounts) = (self.clone(), accounts.clone());
        let order = asked.order;
        let make = move || async move {
            let found = if words.is_empty() {
                Hits::all(this.store.page(asked, limit + 1).await?)
            } else {
                this.store.search(asked, words, limit + 1).await?
            };
            let cursor = |(price, id)| write_whole_cursor(&name, price, id);
            let of_last = |last: &PostSummary| cursor(last.position(order));
            let names = this.names(&accounts);
            let page = Page::cut(found.items, limit, of_last, |post| PostItem::new(post, names));
            Ok(Some(page.or_more(found.more.map(cursor))))
        };
        self.responses.answer(&self.lists, wanted, headers, make, no_listing).await
    }
}
