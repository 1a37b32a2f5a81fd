//! The library `url` of jslib.k6.io: addresses as in browsers, by the `url` crate.

use rquickjs::convert::List;
use rquickjs::function::Opt;
use rquickjs::{Ctx, Function, Object, Result};
use url::{Url, form_urlencoded, quirks};

use super::BuiltIn;
use crate::script::compiled;

const LIBRARY: &str = include_str!("url.js");

/// The module.
pub(super) struct Urls;

impl BuiltIn for Urls {
    const MEMBERS: &'static [&'static str] = &["URL", "URLSearchParams"];

    fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
        let make: Function<'js> = compiled::library(ctx, "url.js", LIBRARY)?;
        make.call((
            Function::new(ctx.clone(), parse)?,
            Function::new(ctx.clone(), part)?,
            Function::new(ctx.clone(), change)?,
            Function::new(ctx.clone(), pairs)?,
            Function::new(ctx.clone(), serialized)?,
        ))
    }
}

/// An absolute address as it is written; `None` for what is none.
fn parse(address: String, base: Opt<Option<String>>) -> Option<String> {
    let base = match base.0.flatten() {
        Some(base) => Some(Url::parse(&base).ok()?),
        None => None,
    };
    let url = Url::options().base_url(base.as_ref()).parse(&address).ok()?;
    Some(url.into())
}

/// A part of an address, by the name it has in JavaScript.
fn part(address: String, name: String) -> String {
    let Ok(url) = Url::parse(&address) else { return String::new() };
    match name.as_str() {
        "origin" => quirks::origin(&url),
        "protocol" => quirks::protocol(&url).to_owned(),
        "username" => quirks::username(&url).to_owned(),
        "password" => quirks::password(&url).to_owned(),
        "host" => quirks::host(&url).to_owned(),
        "hostname" => quirks::hostname(&url).to_owned(),
        "port" => quirks::port(&url).to_owned(),
        "pathname" => quirks::pathname(&url).to_owned(),
        "search" => quirks::search(&url).to_owned(),
        _ => quirks::hash(&url).to_owned(),
    }
}

/// The address with another part; as it was when the part cannot be so.
fn change(address: String, name: String, value: String) -> String {
    let Ok(mut url) = Url::parse(&address) else { return address };
    let changed = match name.as_str() {
        "protocol" => quirks::set_protocol(&mut url, &value),
        "username" => quirks::set_username(&mut url, &value),
        "password" => quirks::set_password(&mut url, &value),
        "host" => quirks::set_host(&mut url, &value),
        "hostname" => quirks::set_hostname(&mut url, &value),
        "port" => quirks::set_port(&mut url, &value),
        "pathname" => {
            quirks::set_pathname(&mut url, &value);
            Ok(())
        }
        "search" => {
            quirks::set_search(&mut url, &value);
            Ok(())
        }
        _ => {
            quirks::set_hash(&mut url, &value);
            Ok(())
        }
    };
    changed.map_or(address, |()| url.into())
}

/// Names and values of a query.
fn pairs(query: String) -> Vec<List<(String, String)>> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    pairs.map(|(name, value)| List((name.into_owned(), value.into_owned()))).collect()
}

fn serialized(pairs: Vec<List<(String, String)>>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs.into_iter().map(|List(pair)| pair));
    query.finish()
}
