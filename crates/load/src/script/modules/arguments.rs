//! Reading arguments: tags, bodies, request parameters.

use std::rc::Rc;
use std::time::Duration;

use rquickjs::{Coerced, Ctx, Exception, Object, Result, Value};

use super::form;
use crate::options::duration::parse_duration;
use crate::script::user::User;

/// Tags as `(key, value)`.
pub(super) type Tags = Vec<(String, String)>;

/// Default of `timeout`, as k6's.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Request parameters k6 has and this engine does not.
const MISSING_PARAMS: &[&str] = &["auth", "compression", "cookies", "jar", "responseCallback"];

/// How a script wants the body of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseType {
    Text,
    Binary,
    None,
}

/// The last argument of every request function.
pub(super) struct Params {
    pub(super) headers: Vec<(Rc<str>, Rc<str>)>,
    /// Without `name`, which has its own field.
    pub(super) tags: Option<Tags>,
    pub(super) name: Option<Rc<str>>,
    pub(super) timeout: Duration,
    pub(super) redirects: Option<u32>,
    pub(super) response_type: Option<ResponseType>,
    pub(super) throw: Option<bool>,
}

impl Params {
    fn new() -> Self {
        Self {
            headers: Vec::new(),
            tags: None,
            name: None,
            timeout: DEFAULT_TIMEOUT,
            redirects: None,
            response_type: None,
            throw: None,
        }
    }

    /// Reads the parameters; keys that k6 does not know are ignored, as in k6.
    pub(super) fn read<'js>(ctx: &Ctx<'js>, value: Option<Value<'js>>) -> Result<Self> {
        let mut params = Self::new();
        let Some(object) = value.as_ref().and_then(Value::as_object) else {
            return Ok(params);
        };
        for entry in object.props::<String, Value<'js>>() {
            let (key, value) = entry?;
            if value.is_undefined() || value.is_null() {
                continue;
            }
            match key.as_str() {
                "headers" => params.headers = headers_from(ctx, value)?,
                "tags" => params.set_tags(tags_from(ctx, Some(value))?),
                "timeout" => params.timeout = timeout_from(ctx, &value)?,
                "redirects" => {
                    params.redirects = Some(value.get::<Coerced<f64>>()?.0.clamp(0.0, 1e6) as u32);
                }
                "responseType" => params.response_type = Some(response_type_from(ctx, value)?),
                "throw" => params.throw = Some(value.get::<Coerced<bool>>()?.0),
                missing if MISSING_PARAMS.contains(&missing) => {
                    let feature = format!("the request parameter {missing}");
                    return Err(User::of(ctx).refuse_feature(ctx, &feature));
                }
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
    let Some(value) = value.filter(|value| !value.is_undefined() && !value.is_null()) else {
        return Ok(None);
    };
    let Some(object) = value.as_object() else {
        return Err(Exception::throw_type(ctx, "tags must be an object"));
    };
    let mut tags = Vec::new();
    for entry in object.props::<String, Value<'js>>() {
        let (key, value) = entry?;
        if value.is_object() {
            let message = format!("the tag `{key}` must be a string, a number or a boolean");
            return Err(Exception::throw_type(ctx, &message));
        }
        if !value.is_undefined() && !value.is_null() {
            tags.push((key, value.get::<Coerced<String>>()?.0));
        }
    }
    Ok((!tags.is_empty()).then_some(tags))
}

fn headers_from<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> Result<Vec<(Rc<str>, Rc<str>)>> {
    let Some(object) = value.as_object() else {
        return Err(Exception::throw_type(ctx, "headers must be an object"));
    };
    let mut headers = Vec::new();
    for entry in object.props::<String, Value<'js>>() {
        let (name, value) = entry?;
        headers.push((name.into(), value.get::<Coerced<String>>()?.0.into()));
    }
    Ok(headers)
}

fn timeout_from(ctx: &Ctx<'_>, value: &Value<'_>) -> Result<Duration> {
    let parsed = match (value.as_number(), value.as_string()) {
        (Some(milliseconds), _) => Duration::try_from_secs_f64(milliseconds / 1e3).ok(),
        (None, Some(text)) => parse_duration(&text.to_string()?).ok(),
        (None, None) => None,
    };
    parsed.filter(|timeout| !timeout.is_zero()).ok_or_else(|| {
        let message = "invalid timeout: a positive number of milliseconds or a text such as '30s' is expected";
        Exception::throw_type(ctx, message)
    })
}

fn response_type_from<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> Result<ResponseType> {
    match value.get::<Coerced<String>>()?.0.as_str() {
        "text" => Ok(ResponseType::Text),
        "binary" => Ok(ResponseType::Binary),
        "none" => Ok(ResponseType::None),
        other => {
            let message = format!("invalid responseType `{other}`: text, binary or none");
            Err(Exception::throw_type(ctx, &message))
        }
    }
}

/// A request body.
pub(super) struct Body {
    pub(super) bytes: Rc<[u8]>,
    /// It was an object and is form-encoded.
    pub(super) is_form: bool,
}

/// A body from a string, an `ArrayBuffer` or typed array, or an object (a form).
pub(super) fn body_from<'js>(ctx: &Ctx<'js>, value: Option<Value<'js>>) -> Result<Option<Body>> {
    let Some(value) = value.filter(|value| !value.is_undefined() && !value.is_null()) else {
        return Ok(None);
    };
    if let Some(text) = value.as_string() {
        let text = text.clone().to_cstring()?;
        return Ok(Some(Body { bytes: text.as_str().as_bytes().into(), is_form: false }));
    }
    let Some(object) = value.as_object() else {
        return Err(Exception::throw_type(ctx, "unknown type of request body"));
    };
    if let Some(bytes) = bytes_from(ctx, object)? {
        return Ok(Some(Body { bytes: bytes.into(), is_form: false }));
    }
    let encoded = form::encode(object)?;
    Ok(Some(Body { bytes: encoded.into_bytes().into(), is_form: true }))
}

/// The bytes of an `ArrayBuffer`, `Uint8Array` or other view. Copied element by element through
/// the script engine: a slice into its memory would not be safe.
fn bytes_from<'js>(ctx: &Ctx<'js>, object: &Object<'js>) -> Result<Option<Vec<u8>>> {
    let globals = ctx.globals();
    let view: rquickjs::function::Constructor<'js> = globals.get("Uint8Array")?;
    let view: Object<'js> = if object.as_array_buffer().is_some() {
        view.construct((object.clone(),))?
    } else if let Some((buffer, offset, length)) = view_parts(object) {
        view.construct((buffer, offset, length))?
    } else {
        return Ok(None);
    };
    let length: u32 = view.get("length")?;
    (0..length).map(|index| view.get::<_, u8>(index)).collect::<Result<Vec<u8>>>().map(Some)
}

fn view_parts<'js>(object: &Object<'js>) -> Option<(Value<'js>, u32, u32)> {
    let buffer: Value<'js> = object.get("buffer").ok()?;
    buffer.as_object()?.as_array_buffer()?;
    Some((buffer, object.get("byteOffset").ok()?, object.get("byteLength").ok()?))
}
