//! `k6/http`.

use std::rc::Rc;

use rquickjs::function::Opt;
use rquickjs::{Class, Coerced, Ctx, IntoJs, Object, Result, Value};

use super::cookie_jar::{CookieJar, cookie_jar};
use super::expected_statuses::{expected_statuses, set_response_callback};
use super::request::{Arguments, Prepared, finish, perform, prepare, url_template};
use super::response::Response;
use super::{batch, define, form, running_user};
use crate::script::tasks::{Settle, Tasks};
use crate::script::user::User;

/// Constants whose values are not part of their names.
const TLS_CONSTANTS: [(&str, &str); 4] =
    [("TLS_1_0", "tls1.0"), ("TLS_1_1", "tls1.1"), ("TLS_1_2", "tls1.2"), ("TLS_1_3", "tls1.3")];

pub(super) const MEMBERS: &str = "\
        CookieJar OCSP_REASON_AA_COMPROMISE OCSP_REASON_AFFILIATION_CHANGED \
        OCSP_REASON_CA_COMPROMISE OCSP_REASON_CERTIFICATE_HOLD \
        OCSP_REASON_CESSATION_OF_OPERATION OCSP_REASON_KEY_COMPROMISE \
        OCSP_REASON_PRIVILEGE_WITHDRAWN OCSP_REASON_REMOVE_FROM_CRL OCSP_REASON_SUPERSEDED \
        OCSP_REASON_UNSPECIFIED OCSP_STATUS_GOOD OCSP_STATUS_REVOKED OCSP_STATUS_SERVER_FAILED \
        OCSP_STATUS_UNKNOWN TLS_1_0 TLS_1_1 TLS_1_2 TLS_1_3 asyncRequest batch cookieJar del \
        expectedStatuses file get head options patch post put request setResponseCallback url";

pub(super) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    for (name, method) in [("get", "GET"), ("head", "HEAD")] {
        let call = move |ctx: Ctx<'js>, url: Opt<Value<'js>>, params: Opt<Value<'js>>| {
            send(&ctx, arguments(&ctx, method, url, Opt(None), params))
        };
        define(&object, name, call)?;
    }
    for (name, method) in [
        ("post", "POST"),
        ("put", "PUT"),
        ("patch", "PATCH"),
        ("del", "DELETE"),
        ("options", "OPTIONS"),
    ] {
        let call = move |ctx: Ctx<'js>, url: Opt<_>, body: Opt<_>, params: Opt<_>| {
            send(&ctx, arguments(&ctx, method, url, body, params))
        };
        define(&object, name, call)?;
    }
    define(&object, "request", request)?;
    define(&object, "asyncRequest", async_request)?;
    define(&object, "batch", batch::batch)?;
    define(&object, "cookieJar", cookie_jar)?;
    object.set("CookieJar", Class::<CookieJar>::create_constructor(ctx)?)?;
    define(&object, "expectedStatuses", expected_statuses)?;
    define(&object, "setResponseCallback", set_response_callback)?;
    define(&object, "file", form::file)?;
    define(&object, "url", url_template)?;
    for (name, value) in TLS_CONSTANTS {
        object.set(name, value)?;
    }
    for name in MEMBERS.split(' ') {
        let value = name.strip_prefix("OCSP_STATUS_").or_else(|| name.strip_prefix("OCSP_REASON_"));
        if let Some(value) = value {
            object.set(name, value.to_ascii_lowercase())?;
        }
    }
    Ok(object)
}

/// `http.request(method, url, body?, params?)`.
pub(super) fn request<'js>(
    ctx: Ctx<'js>,
    method: Opt<Coerced<String>>,
    url: Opt<Value<'js>>,
    body: Opt<Value<'js>>,
    params: Opt<Value<'js>>,
) -> Result<Class<'js, Response>> {
    send(&ctx, arguments(&ctx, in_capitals(method), url, body, params))
}

fn in_capitals(method: Opt<Coerced<String>>) -> String {
    method.0.map_or_else(String::new, |method| method.0.to_ascii_uppercase())
}

fn arguments<'js>(
    ctx: &Ctx<'js>,
    method: impl Into<Rc<str>>,
    url: Opt<Value<'js>>,
    body: Opt<Value<'js>>,
    params: Opt<Value<'js>>,
) -> Arguments<'js> {
    let url = url.0.unwrap_or_else(|| Value::new_undefined(ctx.clone()));
    Arguments { method: method.into(), url, body: body.0, params: params.0 }
}

/// The virtual user and its prepared request.
fn ready<'js>(ctx: &Ctx<'js>, arguments: Arguments<'js>) -> Result<(Rc<User>, Prepared)> {
    let user = running_user(ctx, "Making http requests in the init context is not supported")?;
    let prepared = prepare(ctx, &user, arguments)?;
    Ok((user, prepared))
}

/// Sends a request and blocks until it is answered or has failed.
fn send<'js>(ctx: &Ctx<'js>, arguments: Arguments<'js>) -> Result<Class<'js, Response>> {
    let (user, prepared) = ready(ctx, arguments)?;
    let performed = user.wait(ctx, perform(&user, prepared))?;
    finish(ctx, &user, performed)
}

/// `http.asyncRequest(method, url, body?, params?)`: a promise of the response.
fn async_request<'js>(
    ctx: Ctx<'js>,
    method: Opt<Coerced<String>>,
    url: Opt<Value<'js>>,
    body: Opt<Value<'js>>,
    params: Opt<Value<'js>>,
) -> Result<Value<'js>> {
    let arguments = arguments(&ctx, in_capitals(method), url, body, params);
    let (user, prepared) = ready(&ctx, arguments)?;
    let sender = user.clone();
    Tasks::start_work(&user, &ctx, async move {
        let performed = perform(&sender, prepared).await;
        let settle: Settle = Box::new(move |ctx| finish(ctx, &sender, performed)?.into_js(ctx));
        settle
    })
}
