//! Reading of arguments: tags, bodies, request parameters.

use std::rc::Rc;
use std::time::Duration;

use rquickjs::{Coerced, Ctx, Exception, Result, Value};

use super::bytes::buffer_bytes;
use super::cookie_jar::{cookies_from, jar_from};
use super::expected_statuses::{self, ExpectedStatuses};
use super::form;
use crate::http::cookies::{Jar, RequestCookie};
use crate::http::encoding::Coding;
use crate::options::duration::parse_duration;
use crate::script::user::User;

pub(super) type Tags = Vec<(String, String)>;

/// k6's default of `timeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// More than 100 years; much longer timers are impossible.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(1 << 32);

pub(super) enum ArgumentError {
    /// Exception of a getter or conversion of the script.
    Threw(rquickjs::Error),
    /// As in k6, such a request counts as failed.
    Invalid(String),
}

impl From<rquickjs::Error> for ArgumentError {
    fn from(error: rquickjs::Error) -> Self {
        Self::Threw(error)
    }
}

type Read<T> = std::result::Result<T, ArgumentError>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseType {
    Text,
    Binary,
    None,
}

/// The last argument of every request function.
#[derive(Default)]
pub(super) struct Params {
    pub(super) headers: Vec<(Rc<str>, Rc<str>)>,
    /// Without `name`, which has its own field.
    pub(super) tags: Option<Tags>,
    pub(super) name: Option<Rc<str>>,
    pub(super) timeout: Duration,
    pub(super) redirects: Option<u32>,
    pub(super) response_type: Option<ResponseType>,
    pub(super) throw: Option<bool>,
    pub(super) cookies: Vec<RequestCookie>,
    pub(super) jar: Option<Rc<Jar>>,
    /// In the order of application.
    pub(super) compression: Vec<Coding>,
    pub(super) expected: Option<Rc<ExpectedStatuses>>,
    /// A challenge of the server is answered with user and password of the address.
    pub(super) is_digest: bool,
}

impl Params {
    /// Reads the parameters; keys that k6 does not know are ignored, as in k6.
    pub(super) fn read<'js>(ctx: &Ctx<'js>, value: Option<Value<'js>>) -> Read<Self> {
        let mut params = Self { timeout: DEFAULT_TIMEOUT, ..Self::default() };
        let Some(object) = value.as_ref().and_then(Value::as_object) else {
            return Ok(params);
        };
        for entry in object.props::<String, Value<'js>>() {
            let (key, value) = entry?;
            // `null`: not judged.
            if key == "responseCallback" && value.is_null() {
                params.expected = Some(Rc::new(ExpectedStatuses::Unjudged));
            }
            if value.is_undefined() || value.is_null() {
                continue;
            }
            match key.as_str() {
                "headers" => params.headers = headers_from(&value)?,
                "tags" => params.set_tags(read_tags(Some(value)).map_err(of_request)?),
                "timeout" => params.timeout = timeout_from(&value)?,
                "redirects" => {
                    params.redirects = Some(value.get::<Coerced<f64>>()?.0.clamp(0.0, 1e6) as u32);
                }
                "responseType" => params.response_type = Some(response_type_from(&value)?),
                "throw" => params.throw = Some(value.get::<Coerced<bool>>()?.0),
                "cookies" => params.cookies = cookies_from(&value)?,
                "jar" => params.jar = jar_from(&value),
                "compression" => params.compression = compression_from(&value)?,
                "responseCallback" => {
                    params.expected = Some(expected_statuses::read(ctx, &value)?);
                }
                "auth" => params.is_digest = is_digest(ctx, value)?,
                _ => {}
            }
        }
        Ok(params)
    }

    fn set_tags(&mut self, tags: Option<Tags>) {
        let Some(mut tags) = tags else { return };
        if let Some(at) = tags.iter().position(|(key, _)| key == "name") {
            self.name = Some(tags.swap_remove(at).1.into());
        }
        self.tags = Some(tags).filter(|tags| !tags.is_empty());
    }
}

/// Tags from an object of strings, numbers and booleans; `None` when there are none.
pub(super) fn tags_from<'js>(ctx: &Ctx<'js>, value: Option<Value<'js>>) -> Result<Option<Tags>> {
    read_tags(value).map_err(|wrong| match wrong {
        ArgumentError::Threw(error) => error,
        ArgumentError::Invalid(text) => Exception::throw_type(ctx, &text),
    })
}

fn read_tags(value: Option<Value<'_>>) -> Read<Option<Tags>> {
    // Values that are no objects have no tags.
    let Some(object) = value.as_ref().and_then(Value::as_object) else { return Ok(None) };
    let mut tags = Vec::new();
    for entry in object.props::<String, Value<'_>>() {
        let (key, value) = entry?;
        if value.is_object() {
            return Err(ArgumentError::Invalid(format!(
                "invalid value for metric tag '{key}': only String, Boolean and Number types are \
                 accepted as a metric tag values"
            )));
        }
        if !value.is_undefined() && !value.is_null() {
            tags.push((key, value.get::<Coerced<String>>()?.0));
        }
    }
    Ok((!tags.is_empty()).then_some(tags))
}

fn of_request(error: ArgumentError) -> ArgumentError {
    match error {
        ArgumentError::Invalid(text) => {
            ArgumentError::Invalid(format!("invalid HTTP request metric tags: {text}"))
        }
        threw @ ArgumentError::Threw(_) => threw,
    }
}

fn compression_from(value: &Value<'_>) -> Read<Vec<Coding>> {
    let text = value.get::<Coerced<String>>()?.0;
    let coding = |name: &str| {
        Coding::parse(name.trim()).ok_or_else(|| {
            ArgumentError::Invalid(format!(
                "unknown compression algorithm {name}, supported algorithms are [gzip deflate zstd br]"
            ))
        })
    };
    text.split(',').filter(|name| !name.trim().is_empty()).map(coding).collect()
}

/// Addresses with user and password mean `basic` anyway, and k6 treats every unknown scheme as `basic`.
fn is_digest<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> Result<bool> {
    let scheme = value.get::<Coerced<String>>()?.0.to_ascii_lowercase();
    if scheme != "ntlm" {
        return Ok(scheme == "digest");
    }
    let feature = format!("the request parameter auth with {scheme}");
    Err(User::of(ctx).refuse_feature(ctx, &feature))
}

/// Values that are no objects have no headers.
pub(super) fn headers_from(value: &Value<'_>) -> Result<Vec<(Rc<str>, Rc<str>)>> {
    let Some(object) = value.as_object() else { return Ok(Vec::new()) };
    let mut headers = Vec::new();
    for entry in object.props::<String, Value<'_>>() {
        let (name, value) = entry?;
        headers.push((name.into(), value.get::<Coerced<String>>()?.0.into()));
    }
    Ok(headers)
}

/// As in k6, a timeout that is no positive number is over before the request is sent.
fn timeout_from(value: &Value<'_>) -> Read<Duration> {
    if let Some(milliseconds) = value.as_number() {
        let timeout = Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or(Duration::ZERO);
        return Ok(timeout.min(LONGEST_TIMEOUT));
    }
    let wrong = |reason| Err(ArgumentError::Invalid(format!("invalid timeout value: {reason}")));
    let Some(text) = value.as_string() else {
        return wrong(format!("unable to use type {} as a duration value", value.type_name()));
    };
    let text = text.to_string()?;
    if text.strip_prefix('-').is_some_and(|text| parse_duration(text).is_ok()) {
        return Ok(Duration::ZERO);
    }
    parse_duration(&text).or_else(|_| wrong(format!("time: invalid duration \"{text}\"")))
}

fn response_type_from(value: &Value<'_>) -> Read<ResponseType> {
    match value.get::<Coerced<String>>()?.0.as_str() {
        "text" => Ok(ResponseType::Text),
        "binary" => Ok(ResponseType::Binary),
        "none" => Ok(ResponseType::None),
        other => {
            let text = format!("{other} does not belong to ResponseType values");
            Err(ArgumentError::Invalid(text))
        }
    }
}

pub(super) struct Body {
    pub(super) bytes: Rc<[u8]>,
    /// Type of a body that was an object; `None` for other bodies.
    pub(super) content_type: Option<Rc<str>>,
}

/// A body from a string, an `ArrayBuffer` or typed array, or an object (a form).
pub(super) fn body_from<'js>(ctx: &Ctx<'js>, value: Option<Value<'js>>) -> Read<Option<Body>> {
    let Some(value) = value.filter(|value| !value.is_undefined() && !value.is_null()) else {
        return Ok(None);
    };
    if let Some(text) = value.as_string() {
        let text = text.clone().to_cstring()?;
        return Ok(Some(Body { bytes: text.as_str().as_bytes().into(), content_type: None }));
    }
    let Some(object) = value.as_object() else {
        let text = format!("unknown request body type {}", value.type_name());
        return Err(ArgumentError::Invalid(text));
    };
    if let Some(bytes) = buffer_bytes(object) {
        return Ok(Some(Body { bytes: bytes.into(), content_type: None }));
    }
    if form::has_file(object)? {
        let (bytes, content_type) = form::multipart(ctx, object)?;
        return Ok(Some(Body { bytes: bytes.into(), content_type: Some(content_type.into()) }));
    }
    let bytes = form::url_encoded(object)?.into_bytes().into();
    Ok(Some(Body { bytes, content_type: Some("application/x-www-form-urlencoded".into()) }))
}
