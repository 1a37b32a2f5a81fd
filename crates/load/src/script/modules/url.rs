//! The library `url` of jslib.k6.io: addresses as in browsers, by the crate `url`.

use rquickjs::convert::List;
use rquickjs::function::Opt;
use rquickjs::{Ctx, Function, Object, Result};
use url::{Url, form_urlencoded, quirks};

use crate::script::compiled;

const LIBRARY: &str = include_str!("url.js");

pub(super) const MEMBERS: &str = "URL URLSearchParams";

pub(super) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let make: Function<'js> = compiled::library(ctx, "url.js", LIBRARY)?;
    make.call((
        Function::new(ctx.clone(), parse)?,
        Function::new(ctx.clone(), part)?,
        Function::new(ctx.clone(), change)?,
        Function::new(ctx.clone(), pairs)?,
        Function::new(ctx.clone(), serialized)?,
    ))
}

/// An absolute address in its normal form; `None` if it is invalid.
fn parse(address: String, base: Opt<Option<String>>) -> Option<String> {
    let base = match base.0.flatten() {
        Some(base) => Some(Url::parse(&base).ok()?),
        None => None,
    };
    let url = Url::options().base_url(base.as_ref()).parse(&address).ok()?;
    Some(url.into())
}

/// A part of an address, by its name in JavaScript.
fn part(address: String, name: String) -> String {
    let Ok(url) = Url::parse(&address) else { return String::new() };
    let part = match name.as_str() {
        "origin" => return quirks::origin(&url),
        "protocol" => quirks::protocol(&url),
        "username" => quirks::username(&url),
        "password" => quirks::password(&url),
        "host" => quirks::host(&url),
        "hostname" => quirks::hostname(&url),
        "port" => quirks::port(&url),
        "pathname" => quirks::pathname(&url),
        "search" => quirks::search(&url),
        _ => quirks::hash(&url),
    };
    part.to_owned()
}

/// The address with another part, unchanged if the value is invalid.
fn change(address: String, name: String, value: String) -> String {
    let Ok(mut url) = Url::parse(&address) else { return address };
    let mut changed = Ok(());
    match name.as_str() {
        "protocol" => changed = quirks::set_protocol(&mut url, &value),
        "username" => changed = quirks::set_username(&mut url, &value),
        "password" => changed = quirks::set_password(&mut url, &value),
        "host" => changed = quirks::set_host(&mut url, &value),
        "hostname" => changed = quirks::set_hostname(&mut url, &value),
        "port" => changed = quirks::set_port(&mut url, &value),
        "pathname" => quirks::set_pathname(&mut url, &value),
        "search" => quirks::set_search(&mut url, &value),
        _ => quirks::set_hash(&mut url, &value),
    }
    changed.map_or(address, |()| url.into())
}

fn pairs(query: String) -> Vec<List<(String, String)>> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    pairs.map(|(name, value)| List((name.into_owned(), value.into_owned()))).collect()
}

fn serialized(pairs: Vec<List<(String, String)>>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs.into_iter().map(|List(pair)| pair));
    query.finish()
}
