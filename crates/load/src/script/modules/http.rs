//! `k6/http`.

use std::rc::Rc;
use std::time::Instant;

use rquickjs::function::Opt;
use rquickjs::module::{Declarations, Exports, ModuleDef};
use rquickjs::{Class, Coerced, Ctx, Exception, Function, Object, Result, Value};

use super::Members;
use super::arguments::{Params, ResponseType, body_from};
use super::response::{Received, Response};
use crate::http::{Exchange, Request, RequestError, Timings, Traffic, Url};
use crate::log::Level;
use crate::script::user::User;

pub(super) const MEMBERS: Members = Members {
    present: &["del", "get", "head", "options", "patch", "post", "put", "request"],
    missing: &[
        "CookieJar",
        "OCSP_REASON_AA_COMPROMISE",
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
        "expectedStatuses",
        "file",
        "setResponseCallback",
        "url",
    ],
    prefix: "http.",
};

/// The module `k6/http`.
pub(super) struct Http;

impl ModuleDef for Http {
    fn declare(declarations: &Declarations<'_>) -> Result<()> {
        MEMBERS.declare(declarations)
    }

    fn evaluate<'js>(ctx: &Ctx<'js>, exports: &Exports<'js>) -> Result<()> {
        let object = Object::new(ctx.clone())?;
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
        let request = Function::new(
            ctx.clone(),
            |ctx: Ctx<'js>,
             method: Coerced<String>,
             url: Value<'js>,
             body: Opt<Value<'js>>,
             params: Opt<Value<'js>>| {
                send(&ctx, &method.0.to_ascii_uppercase(), &url, body.0, params.0)
            },
        )?;
        object.set("request", request.with_name("request")?)?;
        MEMBERS.export(exports, &object)
    }
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
    if user.is_initialising() {
        return Err(Exception::throw_message(
            ctx,
            "Making http requests in the init context is not supported",
        ));
    }
    let params = Params::read(ctx, params)?;
    let request = match request_from(ctx, &user, method, url, body, &params)? {
        Ok(request) => request,
        Err(refused) => return unsent(ctx, &user, &params, refused),
    };
    let (name, tags) = (params.name.as_ref(), params.tags.as_deref());
    let exchange = {
        let mut client = user.client.borrow_mut();
        let redirected = |exchange: &Exchange| {
            user.add_request(exchange, name, tags);
        };
        user.wait(ctx, client.send(&request, redirected))?
    };
    // A redirect; without this, a run against a server that wants TLS would look like a clean one.
    if matches!(exchange.outcome, Err(RequestError::Https)) {
        return Err(user.refuse_feature(ctx, "https://"));
    }
    let reference = user.add_request(&exchange, name, tags);
    let binary = params.response_type == Some(ResponseType::Binary);
    let (received, error) = Received::new(exchange, request, reference, binary);
    finish(ctx, &user, &params, received, error)
}

/// A request that cannot be sent at all.
struct Refused {
    method: Rc<str>,
    url: String,
    error: RequestError,
}

/// What becomes of it. As in k6, an address with the wrong scheme or none is a failed request; one
/// that cannot be parsed is no request at all.
fn unsent<'js>(
    ctx: &Ctx<'js>,
    user: &User,
    params: &Params,
    refused: Refused,
) -> Result<Class<'js, Response>> {
    let Refused { method, url, error } = refused;
    let (error, reference) = match error {
        RequestError::Https => return Err(user.refuse_feature(ctx, "https://")),
        RequestError::UnsupportedScheme(scheme) => {
            let exchange = Exchange {
                method: method.clone(),
                url: Rc::new(Url::unusable(&url)),
                timings: Timings::default(),
                traffic: Traffic::default(),
                end: Instant::now(),
                outcome: Err(RequestError::UnsupportedScheme(scheme.clone())),
            };
            let reference =
                user.add_request(&exchange, params.name.as_ref(), params.tags.as_deref());
            (RequestError::UnsupportedScheme(scheme), Some(reference))
        }
        error => (error, None),
    };
    let received = Received::refused(method, url, &error, reference);
    finish(ctx, user, params, received, Some(error))
}

fn request_from<'js>(
    ctx: &Ctx<'js>,
    user: &User,
    method: &str,
    url: &Value<'js>,
    body: Option<Value<'js>>,
    params: &Params,
) -> Result<std::result::Result<Request, Refused>> {
    let text = url.get::<Coerced<String>>()?.0;
    let url = match user.event_loop.url(&text) {
        Ok(url) => url,
        Err(error) => return Ok(Err(Refused { method: method.into(), url: text, error })),
    };
    let body = body_from(ctx, body)?;
    let mut headers = params.headers.clone();
    let is_form = body.as_ref().is_some_and(|body| body.is_form);
    if is_form && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        headers.push(("Content-Type".into(), "application/x-www-form-urlencoded".into()));
    }
    let settings = user.run.settings();
    let discard_body = match params.response_type {
        Some(response_type) => response_type == ResponseType::None,
        None => settings.discard_response_bodies,
    };
    Ok(Ok(Request {
        method: method.into(),
        url,
        headers,
        body: body.map(|body| body.bytes),
        timeout: params.timeout,
        max_redirects: params.redirects.unwrap_or(settings.max_redirects),
        discard_body,
    }))
}

/// Makes the response object; a failed request is logged, and thrown if the script wants that.
fn finish<'js>(
    ctx: &Ctx<'js>,
    user: &User,
    params: &Params,
    received: Received,
    error: Option<RequestError>,
) -> Result<Class<'js, Response>> {
    if let Some(error) = error {
        let text = format!("{} \"{}\": {error}", received.method, received.url);
        if params.throw.unwrap_or(user.run.settings().throw) {
            return Err(Exception::throw_message(ctx, &text));
        }
        user.run.log.write_limited(Level::Warning, "Request Failed", &[("error", &text)]);
    }
    Class::instance(ctx.clone(), Response::new(received))
}
