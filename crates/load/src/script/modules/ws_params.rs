//! Shared by `ws.connect()` and `new WebSocket()`: their parameters, and the socket object inside the modules.

use std::rc::Rc;

use rquickjs::class::Trace;
use rquickjs::{Class, Coerced, Ctx, Exception, JsLifetime, Result, Value};

use super::arguments::{Tags, headers_from, tags_from};
use super::cookie_jar::jar_from;
use super::running_user;
use crate::http::cookies::Jar;
use crate::script::sockets::Socket;
use crate::script::user::User;

pub(super) struct WsParams {
    pub(super) headers: Vec<(Rc<str>, Rc<str>)>,
    pub(super) tags: Tags,
    pub(super) jar: Rc<Jar>,
    pub(super) deflates: bool,
}

impl WsParams {
    /// Reads the parameters. With `is_strict`, as in `k6/websockets`, unknown ones are refused and `compression` may
    /// not be empty.
    pub(super) fn read<'js>(
        ctx: &Ctx<'js>,
        user: &User,
        value: Option<Value<'js>>,
        is_strict: bool,
    ) -> Result<Self> {
        let jar = user.jar.borrow().clone();
        let mut params = Self { headers: Vec::new(), tags: Vec::new(), jar, deflates: false };
        let Some(object) = value.as_ref().and_then(Value::as_object) else { return Ok(params) };
        for entry in object.props::<String, Value<'js>>() {
            let (key, value) = entry?;
            let is_nullish = value.is_null() || value.is_undefined();
            match key.as_str() {
                "headers" if !is_nullish => params.headers = headers_from(&value)?,
                "tags" => params.tags = tags_from(ctx, Some(value))?.unwrap_or_default(),
                // As in k6, values that are no jar are ignored.
                "jar" if value.is_object() => {
                    if let Some(jar) = jar_from(&value) {
                        params.jar = jar;
                    }
                }
                "compression" => params.deflates = deflates(ctx, &value, is_strict)?,
                "headers" | "jar" => {}
                _ if is_strict => {
                    let message = format!("unknown WebSocket's option {key}");
                    return Err(Exception::throw_message(ctx, &message));
                }
                _ => {}
            }
        }
        Ok(params)
    }
}

fn deflates<'js>(ctx: &Ctx<'js>, value: &Value<'js>, is_strict: bool) -> Result<bool> {
    let text = value.get::<Coerced<String>>()?.0;
    match text.trim() {
        "deflate" => Ok(true),
        "" if !is_strict => Ok(false),
        other => {
            let message = format!(
                "unsupported compression algorithm '{other}', supported algorithm is 'deflate'"
            );
            Err(Exception::throw_message(ctx, &message))
        }
    }
}

/// Throws in the init code.
pub(super) fn check(ctx: Ctx<'_>) -> Result<()> {
    running_user(&ctx, "using websockets in the init context is not supported").map(drop)
}

/// A [`Socket`] held by the JavaScript part of the modules.
#[derive(JsLifetime, Trace)]
pub(super) struct Handle(#[qjs(skip_trace)] pub(super) Rc<Socket>);

script_class!(Handle, "Socket", |_| Ok(()));

impl Handle {
    pub(super) fn socket(handle: &Class<'_, Self>) -> Rc<Socket> {
        handle.borrow().0.clone()
    }
}
