//! `http.cookieJar()`, `new http.CookieJar()`, and the parameters `cookies` and `jar`.

use std::rc::Rc;

use rquickjs::class::{JsClass, Readable, Trace};
use rquickjs::function::{Constructor, Opt, This};
use rquickjs::{Array, Class, Coerced, Ctx, Exception, JsLifetime, Object, Result, Value};

use super::{define, running_user};
use crate::http::cookies::{Jar, RequestCookie, SetCookie, parse_date, unix_now};
use crate::http::{RequestError, Url};

#[derive(JsLifetime, Trace)]
pub(super) struct CookieJar(#[qjs(skip_trace)] Rc<Jar>);

impl<'js> JsClass<'js> for CookieJar {
    const NAME: &'static str = "CookieJar";
    type Mutable = Readable;

    fn prototype(ctx: &Ctx<'js>) -> Result<Option<Object<'js>>> {
        let prototype = Object::new(ctx.clone())?;
        define(&prototype, "set", set)?;
        define(&prototype, "cookiesForURL", cookies_for_url)?;
        define(&prototype, "clear", clear)?;
        define(&prototype, "delete", delete)?;
        Ok(Some(prototype))
    }

    fn constructor(ctx: &Ctx<'js>) -> Result<Option<Constructor<'js>>> {
        let new = |ctx: Ctx<'js>| Class::instance(ctx, Self(Rc::default()));
        Constructor::new_class::<Self, _, _>(ctx.clone(), new).map(Some)
    }
}

/// `http.cookieJar()`: the jar of this virtual user.
pub(super) fn cookie_jar(ctx: Ctx<'_>) -> Result<Class<'_, CookieJar>> {
    let user = running_user(&ctx, "Making cookie jars in the init context is not supported")?;
    let jar = user.jar.borrow().clone();
    Class::instance(ctx, CookieJar(jar))
}

/// `None` for values that are no jar, which k6 ignores.
pub(super) fn jar_from(value: &Value<'_>) -> Option<Rc<Jar>> {
    Class::<CookieJar>::from_value(value).ok().map(|jar| jar.borrow().0.clone())
}

/// Cookies of the parameter `cookies`: strings, or `{value, replace}`. Values that are no objects have none.
pub(super) fn cookies_from(value: &Value<'_>) -> Result<Vec<RequestCookie>> {
    let Some(object) = value.as_object() else { return Ok(Vec::new()) };
    let mut cookies = Vec::new();
    for entry in object.props::<String, Value<'_>>() {
        let (name, value) = entry?;
        if value.is_null() || value.is_undefined() {
            continue;
        }
        let (value, replace) = match value.as_object() {
            Some(cookie) => (
                cookie.get::<_, Coerced<String>>("value")?.0,
                cookie.get::<_, Coerced<bool>>("replace")?.0,
            ),
            None => (value.get::<Coerced<String>>()?.0, false),
        };
        cookies.push(RequestCookie { name, value, replace });
    }
    Ok(cookies)
}

/// `None` for addresses with another scheme than HTTP, which as in k6 have no cookies.
fn url_from(ctx: &Ctx<'_>, text: &str) -> Result<Option<Url>> {
    match Url::parse(text) {
        Ok(url) => Ok(Some(url)),
        Err(RequestError::UnsupportedScheme(_)) => Ok(None),
        Err(error) => Err(Exception::throw_message(ctx, &error.to_string())),
    }
}

/// `set(url, name, value, {domain, path, expires, max_age, secure, http_only}?)`; true if the jar accepts the cookie.
fn set<'js>(
    ctx: Ctx<'js>,
    this: This<Class<'js, CookieJar>>,
    url: Coerced<String>,
    name: Coerced<String>,
    value: Coerced<String>,
    options: Opt<Value<'js>>,
) -> Result<bool> {
    let url = url_from(&ctx, &url.0)?;
    let mut cookie = SetCookie { name: name.0, value: value.0, ..SetCookie::default() };
    if let Some(options) = options.0.as_ref().and_then(Value::as_object) {
        set_options(&ctx, &mut cookie, options)?;
    }
    Ok(url.is_none_or(|url| this.0.borrow().0.set(&url, &cookie, unix_now())))
}

fn set_options<'js>(ctx: &Ctx<'js>, cookie: &mut SetCookie, options: &Object<'js>) -> Result<()> {
    for entry in options.props::<String, Value<'js>>() {
        let (key, value) = entry?;
        if value.is_null() || value.is_undefined() {
            continue;
        }
        match key.as_str() {
            "domain" => cookie.domain = value.get::<Coerced<String>>()?.0,
            "path" => cookie.path = value.get::<Coerced<String>>()?.0,
            "secure" => cookie.secure = value.get::<Coerced<bool>>()?.0,
            "http_only" => cookie.http_only = value.get::<Coerced<bool>>()?.0,
            "max_age" => cookie.max_age = value.get::<Coerced<f64>>()?.0 as i64,
            "expires" => {
                let text = value.get::<Coerced<String>>()?.0;
                if !text.is_empty() {
                    let date = parse_date(&text).ok_or_else(|| {
                        let message = format!("unable to parse \"expires\" date string \"{text}\"");
                        Exception::throw_message(ctx, &message)
                    })?;
                    cookie.expires = Some(date);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// `cookiesForURL(url)`: values by name, each a list.
fn cookies_for_url<'js>(
    ctx: Ctx<'js>,
    this: This<Class<'js, CookieJar>>,
    url: Coerced<String>,
) -> Result<Object<'js>> {
    let url = url_from(&ctx, &url.0)?;
    let object = Object::new(ctx.clone())?;
    let Some(url) = url else { return Ok(object) };
    for pair in this.0.borrow().0.matching(&url, unix_now()) {
        push(&ctx, &object, &pair.name, &*pair.value)?;
    }
    Ok(object)
}

/// Appends to the list that `object` has under `name`.
pub(super) fn push<'js>(
    ctx: &Ctx<'js>,
    object: &Object<'js>,
    name: &str,
    value: impl rquickjs::IntoJs<'js>,
) -> Result<()> {
    let list: Array<'js> = match object.get::<_, Option<Array<'js>>>(name)? {
        Some(list) => list,
        None => {
            let list = Array::new(ctx.clone())?;
            object.set(name, list.clone())?;
            list
        }
    };
    list.set(list.len(), value)
}

fn clear<'js>(
    ctx: Ctx<'js>,
    this: This<Class<'js, CookieJar>>,
    url: Coerced<String>,
) -> Result<()> {
    if let Some(url) = url_from(&ctx, &url.0)? {
        this.0.borrow().0.remove(&url, None);
    }
    Ok(())
}

fn delete<'js>(
    ctx: Ctx<'js>,
    this: This<Class<'js, CookieJar>>,
    url: Coerced<String>,
    name: Coerced<String>,
) -> Result<()> {
    if let Some(url) = url_from(&ctx, &url.0)? {
        this.0.borrow().0.remove(&url, Some(&name.0));
    }
    Ok(())
}
