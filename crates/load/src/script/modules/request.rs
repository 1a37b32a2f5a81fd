//! Requests: from the arguments of a function to a response.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Instant;

use rquickjs::{Array, Class, Coerced, Ctx, Exception, Object, Result, Value};

use super::arguments::{ArgumentError, Params, ResponseType, body_from};
use super::expected_statuses::ExpectedStatuses;
use super::response::{Received, Response};
use crate::http::digest::{self, Asked};
use crate::http::{Exchange, Request, RequestError, Timings, Traffic, Url};
use crate::log::Level;
use crate::options::DEFAULT_MAX_REDIRECTS;
use crate::script::requests::RequestTagging;
use crate::script::user::User;

/// A request to send, or the reason why it cannot be sent.
pub(super) struct Prepared {
    request: std::result::Result<Request, Refused>,
    params: Params,
}

struct Refused {
    method: Rc<str>,
    url: String,
    error: RequestError,
}

impl Prepared {
    fn refused(method: Rc<str>, url: String, error: RequestError, params: Params) -> Self {
        Self { request: Err(Refused { method, url, error }), params }
    }

    /// Host and port, for limits per host; `None` without a valid address.
    pub(super) fn authority(&self) -> Option<Rc<str>> {
        self.request.as_ref().ok().map(|request| request.url.authority.clone())
    }
}

pub(super) struct Arguments<'js> {
    pub(super) method: Rc<str>,
    pub(super) url: Value<'js>,
    pub(super) body: Option<Value<'js>>,
    pub(super) params: Option<Value<'js>>,
}

pub(super) fn prepare<'js>(
    ctx: &Ctx<'js>,
    user: &User,
    arguments: Arguments<'js>,
) -> Result<Prepared> {
    let method = arguments.method.clone();
    read(ctx, user, arguments).or_else(|wrong| match wrong {
        ArgumentError::Threw(error) => Err(error),
        ArgumentError::Invalid(text) => {
            let error = RequestError::Parameter(text);
            Ok(Prepared::refused(method, String::new(), error, Params::default()))
        }
    })
}

fn read<'js>(
    ctx: &Ctx<'js>,
    user: &User,
    arguments: Arguments<'js>,
) -> std::result::Result<Prepared, ArgumentError> {
    let Arguments { method, url, body, params } = arguments;
    let mut params = Params::read(ctx, params)?;
    let text = match tagged(&url) {
        Some((text, name)) => {
            if params.name.is_none() {
                params.name = user.assigned_name().or_else(|| Some(name.into()));
            }
            text
        }
        None if url.is_string() || url.is_object() => url.get::<Coerced<String>>()?.0,
        None => {
            let error = RequestError::InvalidUrl(match url.type_name() {
                "undefined" => "it is undefined",
                "null" => "it is null",
                _ => "it is not a string",
            });
            return Ok(Prepared::refused(method, String::new(), error, params));
        }
    };
    let url = match user.event_loop.url(&text) {
        Ok(url) => url,
        Err(error) => return Ok(Prepared::refused(method, text, error, params)),
    };
    let body = body_from(ctx, body)?;
    let mut headers = std::mem::take(&mut params.headers);
    let has = |headers: &[(Rc<str>, Rc<str>)], wanted: &str| {
        headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted))
    };
    let content_type = body.as_ref().and_then(|body| body.content_type.clone());
    if let Some(content_type) = content_type.filter(|_| !has(&headers, "content-type")) {
        headers.push(("Content-Type".into(), content_type));
    }
    let mut body = body.map(|body| body.bytes);
    if let Some(plain) = body.as_mut().filter(|_| !params.compression.is_empty()) {
        for coding in &params.compression {
            let encoded = coding.encode(plain);
            let encoded =
                encoded.map_err(|error| Exception::throw_message(ctx, &error.to_string()))?;
            *plain = encoded.into();
        }
        if !has(&headers, "content-encoding") {
            let names: Vec<&str> = params.compression.iter().map(|coding| coding.name()).collect();
            headers.push(("Content-Encoding".into(), names.join(", ").into()));
        }
    }
    let settings = user.run.settings();
    let discard_body = match params.response_type {
        Some(response_type) => response_type == ResponseType::None,
        None => settings.discard_response_bodies,
    };
    let request = Request {
        method,
        url,
        headers,
        body,
        timeout: params.timeout,
        max_redirects: params.redirects.unwrap_or(settings.max_redirects),
        discard_body,
        cookies: std::mem::take(&mut params.cookies),
        jar: params.jar.take().unwrap_or_else(|| user.jar.borrow().clone()),
        sent_cookies: OnceCell::new(),
    };
    Ok(Prepared { request: Ok(request), params })
}

/// Address and name of the result of `` http.url`…` ``.
fn tagged(url: &Value<'_>) -> Option<(String, String)> {
    let object = url.as_object()?;
    Some((object.get("url").ok()?, object.get("name").ok()?))
}

/// `` http.url`http://host/users/${id}` ``: an address with the same name for every `id`.
pub(super) fn url_template<'js>(
    ctx: Ctx<'js>,
    parts: Array<'js>,
    values: rquickjs::function::Rest<Coerced<String>>,
) -> Result<Object<'js>> {
    let (mut url, mut name) = (String::new(), String::new());
    for (index, part) in parts.iter::<String>().enumerate() {
        if index > 0 {
            name.push_str("${}");
            url.push_str(values.0.get(index - 1).map_or("", |value| value.0.as_str()));
        }
        let part = part?;
        url.push_str(&part);
        name.push_str(&part);
    }
    let object = Object::new(ctx)?;
    object.set("name", name)?;
    object.set("clean_url", url.as_str())?;
    object.set("url", url)?;
    Ok(object)
}

/// A response or failure, before it becomes an object of the script.
pub(super) struct Performed {
    received: Received,
    /// A failure is thrown.
    throw: bool,
}

/// Sends a request, follows its redirects, and counts all of them.
pub(super) async fn perform(user: &User, prepared: Prepared) -> Performed {
    let Prepared { request, params } = prepared;
    let expected = params.expected.clone().unwrap_or_else(|| user.expected.borrow().clone());
    let tagging = RequestTagging {
        name: params.name.as_ref(),
        tags: params.tags.as_deref(),
        expected: &expected,
        group: user.group.get(),
    };
    let throw = params.throw.unwrap_or(user.run.settings().throw);
    let received = match request {
        Ok(request) => {
            let redirected = |exchange: &Exchange| {
                user.add_request(exchange, &tagging);
            };
            let (request, exchange, is_first) = match &request.url.user_info.clone() {
                Some(user_info) if params.is_digest => {
                    let sent = send_authorised(user, request, user_info, &tagging, redirected);
                    Box::pin(sent).await
                }
                _ => {
                    let exchange = send(user, &request, redirected).await;
                    (request, exchange, false)
                }
            };
            let reference = if is_first {
                let expected = of_digest(&expected);
                user.add_request(&exchange, &RequestTagging { expected: &expected, ..tagging })
            } else {
                user.add_request(&exchange, &tagging)
            };
            if params.redirects.is_none() {
                warn_of_redirect(user, &request, &exchange);
            }
            let binary = params.response_type == Some(ResponseType::Binary);
            Received::new(exchange, request, reference, binary)
        }
        Err(refused) => unsent(user, &tagging, refused),
    };
    Performed { received, throw }
}

async fn send(user: &User, request: &Request, redirected: impl FnMut(&Exchange)) -> Exchange {
    if let Some(limiter) = user.run.limiter.get() {
        tokio::time::sleep_until(limiter.reserve(tokio::time::Instant::now())).await;
    }
    let number = user.pending.begin();
    let exchange = user.client.send(request, redirected).await;
    user.end_request(number, &exchange);
    exchange
}

/// Sends a request, and if the server answers 401 with a challenge, again with the answer to it. As in k6 this
/// happens for every request, and the first one, with the basic authorisation of its address, expects 401.
async fn send_authorised(
    user: &User,
    mut request: Request,
    user_info: &str,
    tagging: &RequestTagging<'_>,
    redirected: impl Fn(&Exchange),
) -> (Request, Exchange, bool) {
    let exchange = send(user, &request, &redirected).await;
    let Some(answer) = answer_to_challenge(&request, &exchange, user_info) else {
        return (request, exchange, true);
    };
    user.add_request(
        &exchange,
        &RequestTagging { expected: &of_digest(tagging.expected), ..*tagging },
    );
    request.headers.push(("Authorization".into(), answer.into()));
    let exchange = send(user, &request, redirected).await;
    (request, exchange, false)
}

/// Expected statuses of the first request.
fn of_digest(expected: &ExpectedStatuses) -> ExpectedStatuses {
    match expected {
        ExpectedStatuses::Unjudged => ExpectedStatuses::Unjudged,
        ExpectedStatuses::Within(_) => ExpectedStatuses::Within(vec![(401, 401)]),
    }
}

fn answer_to_challenge(request: &Request, exchange: &Exchange, user_info: &str) -> Option<String> {
    let head = &exchange.outcome.as_ref().ok()?.head;
    if head.status != 401 || exchange.url != request.url {
        return None;
    }
    let cnonce = format!("{:016x}", fastrand::u64(..));
    let (method, target) = (&*request.method, &*request.url.target);
    let asked = Asked { method, target, user_info, cnonce: &cnonce };
    head.values("www-authenticate")
        .find_map(|challenge| digest::authorization(&String::from_utf8_lossy(challenge), &asked))
}

/// Handles a request that cannot be sent. As in k6, an address with the wrong scheme or none is a failed request; one
/// that cannot be parsed is no request at all.
fn unsent(user: &User, tagging: &RequestTagging<'_>, refused: Refused) -> Received {
    let Refused { method, url, error } = refused;
    let (text, code) = (error.to_string(), error.code());
    let reference = if let RequestError::UnsupportedScheme(_) = error {
        let exchange = Exchange {
            method: method.clone(),
            url: Rc::new(Url::unusable(&url)),
            timings: Timings::default(),
            traffic: Traffic::default(),
            end: Instant::now(),
            outcome: Err(error),
            peer: None,
        };
        Some(user.add_request(&exchange, tagging))
    } else {
        user.event_loop.recorder.borrow_mut().add_refusal(&text);
        None
    };
    Received::refused(method, url, text, code, reference)
}

/// Makes the response object. A failed request is logged, or thrown if the script asks for that.
pub(super) fn finish<'js>(
    ctx: &Ctx<'js>,
    user: &User,
    performed: Performed,
) -> Result<Class<'js, Response>> {
    let Performed { received, throw } = performed;
    let Received { method, url, error, .. } = &received;
    if received.failed() {
        let text = match url.is_empty() {
            true => error.clone(),
            false => format!("{} \"{url}\": {error}", titled(method)),
        };
        if throw {
            return Err(Exception::throw_message(ctx, &text));
        }
        user.run.log.write_limited(Level::Warning, "Request Failed", &[("error", &text)]);
    }
    Class::instance(ctx.clone(), Response(received))
}

/// `Get` for `GET`, as in k6's messages.
fn titled(method: &str) -> String {
    let (first, rest) = method.split_at(method.chars().next().map_or(0, char::len_utf8));
    format!("{first}{}", rest.to_ascii_lowercase())
}

/// Warns that a response is still a redirection, unless the script has set a limit of its own.
fn warn_of_redirect(user: &User, request: &Request, exchange: &Exchange) {
    let Ok(answer) = &exchange.outcome else { return };
    let stopped = matches!(answer.head.status, 301..=303 | 307 | 308)
        && answer.head.values("location").next().is_some()
        && request.max_redirects == DEFAULT_MAX_REDIRECTS;
    if stopped {
        let message = format!(
            "stopped after {DEFAULT_MAX_REDIRECTS} redirects and returned the redirection; set \
             maxRedirects, or {{ redirects: n }} in the request's params, to silence this"
        );
        let fields = [("url", &*request.url.text)];
        user.run.log.write_limited(Level::Warning, &message, &fields);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_method_in_any_script_is_titled() {
        assert_eq!(["GET", "é", "한글", ""].map(super::titled), ["Get", "é", "한글", ""]);
    }
}
