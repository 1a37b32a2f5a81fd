//! The response object of `k6/http`. Properties are computed when a script first reads them, and then become ordinary
//! properties of the object: most scripts read the status only, and making a string of every body would cost more
//! than the request itself.

use std::collections::BTreeMap;
use std::rc::Rc;

use rquickjs::class::Trace;
use rquickjs::function::{Opt, This};
use rquickjs::object::{Accessor, Property};
use rquickjs::{
    ArrayBuffer, Class, Coerced, Ctx, Exception, IntoJs, JsLifetime, Object, Result, Value,
};

use super::cookie_jar::push;
use super::{define, html, json_path};
use crate::http::cookies::{SetCookie, read_cookie_header};
use crate::http::{ErrorCode, Exchange, Head, Ocsp, Peer, Request, Timings, TlsInfo, canonical};
use crate::script::raw;
use crate::script::requests::RequestRef;
use crate::script::user::User;

/// `expires` of a cookie without a date: k6's conversion of Go's zero time.
const NEVER: f64 = -6_795_364_578_871.0;

#[derive(Default)]
pub(super) struct Received {
    pub(super) method: Rc<str>,
    pub(super) url: String,
    head: Option<Head>,
    /// `None` if the request failed or the body is not wanted.
    body: Option<Vec<u8>>,
    binary: bool,
    timings: Timings,
    peer: Option<Peer>,
    /// Message of the failure; empty without one, and rarely with one, as from a proxy without a reason.
    pub(super) error: String,
    error_code: u16,
    request: Option<Request>,
    reference: Option<RequestRef>,
}

impl Received {
    pub(super) fn new(
        exchange: Exchange,
        request: Request,
        reference: RequestRef,
        binary: bool,
    ) -> Self {
        let (head, body, error, code) = match exchange.outcome {
            Ok(answer) => {
                let status = answer.head.status;
                // Responses with these statuses have no body, not even an empty one.
                let has_body = !request.discard_body && !matches!(status, 204 | 304);
                let body = has_body.then_some(answer.body);
                (Some(answer.head), body, String::new(), ErrorCode::of_status(status))
            }
            Err(error) => (None, None, error.to_string(), Some(error.code())),
        };
        Self {
            method: exchange.method,
            url: exchange.url.full().to_string(),
            head,
            body,
            binary,
            timings: exchange.timings,
            peer: exchange.peer,
            error,
            error_code: code.map_or(0, |code| code.0),
            request: Some(request),
            reference: Some(reference),
        }
    }

    /// From a request that could not be sent; with a `reference` it counts as failed.
    pub(super) fn refused(
        method: Rc<str>,
        url: String,
        error: String,
        code: ErrorCode,
        reference: Option<RequestRef>,
    ) -> Self {
        Self { method, url, error, error_code: code.0, reference, ..Self::default() }
    }

    pub(super) fn failed(&self) -> bool {
        self.head.is_none()
    }

    fn status(&self) -> u16 {
        self.head.as_ref().map_or(0, |head| head.status)
    }

    fn status_text(&self) -> String {
        let Some(head) = &self.head else { return String::new() };
        format!("{} {}", head.status, head.reason()).trim_end().to_owned()
    }

    /// Names in Go's canonical form, values of the same name joined.
    fn headers(&self) -> BTreeMap<String, String> {
        let mut headers: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in self.head.iter().flat_map(Head::headers) {
            let value = raw::lossy(value);
            headers
                .entry(canonical(name))
                .and_modify(|known| {
                    known.push_str(", ");
                    known.push_str(&value);
                })
                .or_insert_with(|| value.into_owned());
        }
        headers
    }

    fn body<'js>(&self, ctx: &Ctx<'js>) -> Result<Value<'js>> {
        match &self.body {
            None => Ok(Value::new_null(ctx.clone())),
            Some(body) if self.binary => Ok(ArrayBuffer::new_copy(ctx.clone(), body)?.into_value()),
            Some(body) => raw::text(ctx, body),
        }
    }

    /// The cookies set by the response, by name.
    fn cookies<'js>(&self, ctx: &Ctx<'js>) -> Result<Value<'js>> {
        let cookies = Object::new(ctx.clone())?;
        let set = self.head.iter().flat_map(|head| head.values("set-cookie"));
        for cookie in set.filter_map(SetCookie::parse) {
            let entry = Object::new(ctx.clone())?;
            entry.set("name", cookie.name.as_str())?;
            entry.set("value", cookie.value)?;
            entry.set("domain", cookie.domain.trim_start_matches('.'))?;
            entry.set("path", cookie.path)?;
            entry.set("http_only", cookie.http_only)?;
            entry.set("secure", cookie.secure)?;
            entry.set("max_age", cookie.max_age as f64)?;
            entry.set("expires", cookie.expires.map_or(NEVER, |seconds| seconds as f64 * 1e3))?;
            push(ctx, &cookies, &cookie.name, entry)?;
        }
        Ok(cookies.into_value())
    }

    fn timings<'js>(&self, ctx: &Ctx<'js>) -> Result<Value<'js>> {
        let timings = &self.timings;
        let object = Object::new(ctx.clone())?;
        for (name, duration) in [
            ("duration", timings.duration()),
            ("blocked", timings.blocked),
            ("looking_up", timings.looking_up),
            ("connecting", timings.connecting),
            ("tls_handshaking", timings.tls_handshaking),
            ("sending", timings.sending),
            ("waiting", timings.waiting),
            ("receiving", timings.receiving),
        ] {
            object.set(name, duration.as_secs_f64() * 1e3)?;
        }
        Ok(object.into_value())
    }

    /// The request of the script, also after redirects.
    fn request<'js>(&self, ctx: &Ctx<'js>) -> Result<Value<'js>> {
        let object = Object::new(ctx.clone())?;
        let asked = self.request.as_ref();
        object.set("method", asked.map_or(&*self.method, |request| &*request.method))?;
        let url = asked.map_or_else(|| self.url.as_str().into(), |request| request.url.full());
        object.set("url", &*url)?;
        let headers = Object::new(ctx.clone())?;
        let mut body = String::new();
        if let Some(request) = &self.request {
            let user_agent = &User::of(ctx).event_loop.network.config.user_agent;
            if !user_agent.is_empty() {
                headers.set("User-Agent", vec![user_agent.as_str()])?;
            }
            for (name, value) in &request.headers {
                headers.set(canonical(name), vec![value.to_string()])?;
            }
            if let Some(cookies) = request.sent_cookies.get() {
                headers.set("Cookie", vec![&**cookies])?;
            }
            body = request.body.as_deref().map(raw::lossy).unwrap_or_default().into_owned();
        }
        object.set("headers", headers)?;
        object.set("body", body)?;
        let cookies = Object::new(ctx.clone())?;
        let sent = self.request.as_ref().and_then(|request| request.sent_cookies.get());
        for (name, value) in read_cookie_header(sent.map_or("", |sent| sent)) {
            let entry = Object::new(ctx.clone())?;
            entry.set("name", name)?;
            entry.set("value", value)?;
            // As in k6, whatever the script asked for.
            entry.set("replace", false)?;
            push(ctx, &cookies, name, entry)?;
        }
        object.set("cookies", cookies)?;
        Ok(object.into_value())
    }

    /// As in k6, `None` for a failed request.
    fn tls(&self) -> Option<TlsInfo> {
        self.peer.filter(|_| self.head.is_some()).and_then(|peer| peer.tls)
    }
}

/// [`Received`] as a script class.
#[derive(JsLifetime, Trace)]
pub(super) struct Response(#[qjs(skip_trace)] pub(super) Received);

impl Response {
    pub(super) fn request(&self) -> Option<RequestRef> {
        self.0.reference
    }
}

type Compute = for<'js> fn(&Received, &Ctx<'js>) -> Result<Value<'js>>;

/// Properties that are computed when read, in k6's order.
const PROPERTIES: &[(&str, Compute)] = &[
    ("url", |received, ctx| received.url.as_str().into_js(ctx)),
    ("status", |received, ctx| received.status().into_js(ctx)),
    ("status_text", |received, ctx| received.status_text().into_js(ctx)),
    ("proto", |received, ctx| {
        received.head.as_ref().map_or("", |head| head.version.name()).into_js(ctx)
    }),
    ("headers", |received, ctx| received.headers().into_js(ctx)),
    ("body", Received::body),
    ("timings", Received::timings),
    ("error", |received, ctx| received.error.as_str().into_js(ctx)),
    ("error_code", |received, ctx| received.error_code.into_js(ctx)),
    ("request", Received::request),
    ("cookies", Received::cookies),
    ("remote_ip", |received, ctx| {
        received.peer.map(|peer| peer.address.ip().to_string()).unwrap_or_default().into_js(ctx)
    }),
    ("remote_port", |received, ctx| {
        received.peer.map_or(0, |peer| peer.address.port()).into_js(ctx)
    }),
    ("tls_version", |received, ctx| received.tls().map_or("", |tls| tls.version).into_js(ctx)),
    ("tls_cipher_suite", |received, ctx| {
        received.tls().map_or("", |tls| tls.cipher_suite).into_js(ctx)
    }),
    ("ocsp", |received, ctx| ocsp(received.tls().map_or(Ocsp::NONE, |tls| tls.ocsp), ctx)),
];

/// Defines a property that is computed and stored when first read.
fn lazy<'js>(prototype: &Object<'js>, name: &'static str, compute: Compute) -> Result<()> {
    let get = move |ctx: Ctx<'js>, this: This<Class<'js, Response>>| -> Result<Value<'js>> {
        let value = compute(&this.0.borrow().0, &ctx)?;
        store(&this.0, name, value.clone())?;
        Ok(value)
    };
    let set =
        move |this: This<Class<'js, Response>>, value: Value<'js>| store(&this.0, name, value);
    prototype.prop(name, Accessor::new(get, set).enumerable().configurable())
}

fn store<'js>(object: &Object<'js>, name: &str, value: Value<'js>) -> Result<()> {
    object.prop(name, Property::from(value).writable().enumerable().configurable())
}

fn ocsp<'js>(ocsp: Ocsp, ctx: &Ctx<'js>) -> Result<Value<'js>> {
    let object = Object::new(ctx.clone())?;
    for (name, seconds) in [
        ("produced_at", ocsp.produced_at),
        ("this_update", ocsp.this_update),
        ("next_update", ocsp.next_update),
        ("revoked_at", ocsp.revoked_at),
    ] {
        object.set(name, seconds as f64)?;
    }
    object.set("revocation_reason", ocsp.revocation_reason)?;
    object.set("status", ocsp.status)?;
    Ok(object.into_value())
}

script_class!(Response, "Response", |prototype| {
    for (name, compute) in PROPERTIES {
        lazy(prototype, name, *compute)?;
    }
    html::define_on_responses(prototype)?;
    define(prototype, "json", json)?;
    define(prototype, "toJSON", to_json)
});

/// `json(path?)`: the parsed body, or the part at a path.
fn json<'js>(
    ctx: Ctx<'js>,
    this: This<Class<'js, Response>>,
    path: Opt<Value<'js>>,
) -> Result<Value<'js>> {
    let response = this.0.borrow();
    let Some(body) = response.0.body.as_ref() else {
        let message = "the body is null so we can't transform it to JSON - this likely was because \
                       of a request error getting the response";
        return Err(Exception::throw_message(&ctx, message));
    };
    // As in k6, `undefined` and `null` are the empty path, and numbers are names.
    let path = path.0.filter(|path| !path.is_object()).map(|path| {
        let is_nullish = path.is_undefined() || path.is_null();
        if is_nullish {
            Ok(String::new())
        } else {
            path.get::<Coerced<String>>().map(|text| text.0)
        }
    });
    let path = path.transpose()?;
    let steps = match path.as_deref().map(json_path::parse) {
        None => Vec::new(),
        Some(Ok(steps)) => steps,
        Some(Err(json_path::UnsupportedPath)) => {
            let feature = format!("response.json({})", path.unwrap_or_default());
            return Err(User::of(&ctx).refuse_feature(&ctx, &feature));
        }
    };
    // A NUL byte in the body would otherwise be an error of the binding, not of the document.
    let text = raw::lossy(body).replace('\0', "\u{fffd}");
    let document = match ctx.json_parse(text.as_str()) {
        Ok(document) if steps.is_empty() => document,
        Ok(document) => match json_path::without_repeated_members(&text) {
            Some(text) => ctx.json_parse(text)?,
            None => document,
        },
        // As in k6, a body that is no JSON has no parts.
        Err(_) if !steps.is_empty() => {
            ctx.catch();
            return Ok(Value::new_undefined(ctx));
        }
        Err(error) => return Err(not_json(&ctx, error)),
    };
    json_path::select(&ctx, document, &steps)
}

/// Adds that the error is about the body.
fn not_json(ctx: &Ctx<'_>, error: rquickjs::Error) -> rquickjs::Error {
    match rquickjs::CaughtError::from_error(ctx, error) {
        rquickjs::CaughtError::Exception(exception) => {
            let reason = exception.message().unwrap_or_default();
            let message = format!("cannot parse json due to an error: {reason}");
            Exception::throw_syntax(ctx, &message)
        }
        rquickjs::CaughtError::Value(value) => ctx.throw(value),
        rquickjs::CaughtError::Error(error) => error,
    }
}

/// For `JSON.stringify(response)`: all properties, as in k6's plain object.
fn to_json<'js>(ctx: Ctx<'js>, this: This<Class<'js, Response>>) -> Result<Object<'js>> {
    let object = Object::new(ctx)?;
    for (name, _) in PROPERTIES {
        object.set(*name, this.0.get::<_, Value<'js>>(*name)?)?;
    }
    Ok(object)
}
