//! `k6/http`.

use rquickjs::function::Opt;
use rquickjs::{Class, Coerced, Ctx, Exception, Function, IntoJs, Object, Result, Value};

use super::cookie_jar::{CookieJar, cookie_jar};
use super::expected_statuses::{expected_statuses, set_response_callback};
use super::request::{Prepared, finish, perform, prepare, url_template};
use super::response::Response;
use super::{BuiltIn, batch, multipart};
use crate::script::tasks::{Settle, Tasks};
use crate::script::user::User;

/// Constants with names of their own; those of OCSP are their names in lower case.
const TLS_CONSTANTS: [(&str, &str); 4] =
    [("TLS_1_0", "tls1.0"), ("TLS_1_1", "tls1.1"), ("TLS_1_2", "tls1.2"), ("TLS_1_3", "tls1.3")];

/// The module `k6/http`.
pub(super) struct Http;

impl BuiltIn for Http {
    const MEMBERS: &'static [&'static str] = &[
        "CookieJar",
        "OCSP_REASON_AA_COMPROMISE",
        "OCSP_REASON_AFFILIATION_CHANGED",
        "OCSP_REASON_CA_COMPROMISE",
        "OCSP_REASON_CERTIFICATE_HOLD",
        "OCSP_REASON_CESSATION_OF_OPERATION",
        "OCSP_REASON_KEY_COMPROMISE",
        "OCSP_REASON_PRIVILEGE_WITHDRAWN",
        "OCSP_REASON_REMOVE_FROM_CRL",
        "OCSP_REASON_SUPERSEDED",
        "OCSP_REASON_UNSPECIFIED",
        "OCSP_STATUS_GOOD",
        "OCSP_STATUS_REVOKED",
        "OCSP_STATUS_SERVER_FAILED",
        "OCSP_STATUS_UNKNOWN",
        "TLS_1_0",
        "TLS_1_1",
        "TLS_1_2",
        "TLS_1_3",
        "asyncRequest",
        "batch",
        "cookieJar",
        "del",
        "expectedStatuses",
        "file",
        "get",
        "head",
        "options",
        "patch",
        "post",
        "put",
        "request",
        "setResponseCallback",
        "url",
    ];

    fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
        let object = Object::new(ctx.clone())?;
        define_methods(ctx, &object)?;
        define_requests(ctx, &object)?;
        define_helpers(ctx, &object)?;
        Ok(object)
    }
}

/// The functions named after a method.
fn define_methods<'js>(ctx: &Ctx<'js>, object: &Object<'js>) -> Result<()> {
    for (name, method) in [("get", "GET"), ("head", "HEAD")] {
        let function = Function::new(
            ctx.clone(),
            move |ctx: Ctx<'js>, url: Value<'js>, params: Opt<Value<'js>>| {
                send(&ctx, method, &url, None, params.0)
            },
        )?;
        object.set(name, function.with_name(name)?)?;
    }
    for (name, method) in [
        ("post", "POST"),
        ("put", "PUT"),
        ("patch", "PATCH"),
        ("del", "DELETE"),
        ("options", "OPTIONS"),
    ] {
        let function = Function::new(
            ctx.clone(),
            move |ctx: Ctx<'js>,
                  url: Value<'js>,
                  body: Opt<Value<'js>>,
                  params: Opt<Value<'js>>| {
                send(&ctx, method, &url, body.0, params.0)
            },
        )?;
        object.set(name, function.with_name(name)?)?;
    }
    Ok(())
}

/// The functions that take the method as an argument.
fn define_requests<'js>(ctx: &Ctx<'js>, object: &Object<'js>) -> Result<()> {
    object.set("request", Function::new(ctx.clone(), request)?.with_name("request")?)?;
    let async_request = Function::new(
        ctx.clone(),
        |ctx: Ctx<'js>,
         method: Coerced<String>,
         url: Value<'js>,
         body: Opt<Value<'js>>,
         params: Opt<Value<'js>>| {
            send_later(&ctx, &method.0.to_ascii_uppercase(), &url, body.0, params.0)
        },
    )?;
    object.set("asyncRequest", async_request.with_name("asyncRequest")?)?;
    object.set("batch", Function::new(ctx.clone(), batch::batch)?.with_name("batch")?)
}

/// `http.request(method, url, body?, params?)`.
pub(super) fn request<'js>(
    ctx: Ctx<'js>,
    method: Coerced<String>,
    url: Value<'js>,
    body: Opt<Value<'js>>,
    params: Opt<Value<'js>>,
) -> Result<Class<'js, Response>> {
    send(&ctx, &method.0.to_ascii_uppercase(), &url, body.0, params.0)
}

fn define_helpers<'js>(ctx: &Ctx<'js>, object: &Object<'js>) -> Result<()> {
    object.set("cookieJar", Function::new(ctx.clone(), cookie_jar)?.with_name("cookieJar")?)?;
    object.set("CookieJar", Class::<CookieJar>::create_constructor(ctx)?)?;
    let expected = Function::new(ctx.clone(), expected_statuses)?;
    object.set("expectedStatuses", expected.with_name("expectedStatuses")?)?;
    let callback = Function::new(ctx.clone(), set_response_callback)?;
    object.set("setResponseCallback", callback.with_name("setResponseCallback")?)?;
    object.set("file", Function::new(ctx.clone(), multipart::file)?.with_name("file")?)?;
    object.set("url", Function::new(ctx.clone(), url_template)?.with_name("url")?)?;
    for (name, value) in TLS_CONSTANTS {
        object.set(name, value)?;
    }
    for name in Http::MEMBERS {
        let value = name.strip_prefix("OCSP_STATUS_").or_else(|| name.strip_prefix("OCSP_REASON_"));
        if let Some(value) = value {
            object.set(*name, value.to_ascii_lowercase())?;
        }
    }
    Ok(())
}

fn ready<'js>(
    ctx: &Ctx<'js>,
    user: &User,
    method: &str,
    url: &Value<'js>,
    body: Option<Value<'js>>,
    params: Option<Value<'js>>,
) -> Result<Prepared> {
    if user.is_initialising() {
        let message = "Making http requests in the init context is not supported";
        return Err(Exception::throw_message(ctx, message));
    }
    prepare(ctx, user, method, url, body, params)
}

/// Sends a request and blocks until it is answered or has failed.
fn send<'js>(
    ctx: &Ctx<'js>,
    method: &str,
    url: &Value<'js>,
    body: Option<Value<'js>>,
    params: Option<Value<'js>>,
) -> Result<Class<'js, Response>> {
    let user = User::of(ctx);
    let prepared = ready(ctx, &user, method, url, body, params)?;
    let performed = user.wait(ctx, perform(&user, prepared))?;
    finish(ctx, &user, performed)
}

/// Sends a request; gives a promise of its answer.
fn send_later<'js>(
    ctx: &Ctx<'js>,
    method: &str,
    url: &Value<'js>,
    body: Option<Value<'js>>,
    params: Option<Value<'js>>,
) -> Result<Value<'js>> {
    let user = User::of(ctx);
    let prepared = ready(ctx, &user, method, url, body, params)?;
    let sender = user.clone();
    Tasks::start_work(&user, ctx, async move {
        let performed = perform(&sender, prepared).await;
        let settle: Settle = Box::new(move |ctx| finish(ctx, &sender, performed)?.into_js(ctx));
        settle
    })
}
