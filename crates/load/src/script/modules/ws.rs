//! `k6/ws`: a session that blocks the virtual user. JavaScript calls the script's functions.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use rquickjs::convert::List;
use rquickjs::function::Opt;
use rquickjs::{ArrayBuffer, Class, Ctx, Exception, Function, IntoJs, Object, Result, Value};

use super::bytes::bytes_of;
use super::ws_params::{Handle, WsParams, check};
use super::{define, library};
use crate::http::{Head, canonical};
use crate::metrics::Builtin;
use crate::script::raw;
use crate::script::sockets::{Socket, SocketEvent};
use crate::script::user::User;
use crate::websocket::{Dial, End, Incoming, Opcode};

const LIBRARY: &str = include_str!("ws.js");

/// k6's time limit for writing a close frame.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) const MEMBERS: &str = "connect";

pub(super) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let connect: Function<'js> = library(ctx, "ws.js", LIBRARY, |native| {
        define(native, "check", check)?;
        define(native, "now", clock())?;
        define(native, "connect", connect)?;
        define(native, "next", next)?;
        define(native, "send", send)?;
        define(native, "ping", ping)?;
        define(native, "close", close)?;
        define(native, "end", end)
    })?;
    let object = Object::new(ctx.clone())?;
    object.set("connect", connect)?;
    Ok(object)
}

/// A monotonic clock in milliseconds.
fn clock() -> impl Fn() -> f64 {
    let start = Instant::now();
    move || start.elapsed().as_secs_f64() * 1e3
}

/// `[response, socket]`, without a socket if the connection failed.
fn connect<'js>(
    ctx: Ctx<'js>,
    url: String,
    params: Opt<Value<'js>>,
) -> Result<List<(Object<'js>, Option<Class<'js, Handle>>)>> {
    let user = User::of(&ctx);
    let WsParams { headers, tags, jar, deflates } = WsParams::read(&ctx, &user, params.0, false)?;
    let socket = Socket::new(&user, &[("url", &url)], &tags);
    let dial = Dial { url, headers, protocols: Vec::new(), deflates, jar };
    let result = user.wait(&ctx, Box::pin(socket.connect(&user, &dial)))?;
    match result {
        Ok(head) => {
            let response = response(&ctx, &dial.url, Some((&head, &[])), "")?;
            Ok(List((response, Some(Class::instance(ctx, Handle(socket))?))))
        }
        Err(error) => {
            socket.count_session(&user);
            let text = error.to_string();
            if user.run.settings().throw {
                return Err(Exception::throw_message(&ctx, &text));
            }
            let answer = error.answer();
            let error = if answer.is_some() { "" } else { &text };
            Ok(List((response(&ctx, "", answer, error)?, None)))
        }
    }
}

fn response<'js>(
    ctx: &Ctx<'js>,
    url: &str,
    answer: Option<(&Head, &[u8])>,
    error: &str,
) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    object.set("url", url)?;
    object.set("status", answer.map_or(0, |(head, _)| head.status))?;
    object.set("headers", answer.map(|(head, _)| headers(ctx, head)).transpose()?)?;
    let body = answer.map_or_else(Default::default, |(_, body)| String::from_utf8_lossy(body));
    object.set("body", &*body)?;
    object.set("error", error)?;
    Ok(object)
}

fn headers<'js>(ctx: &Ctx<'js>, head: &Head) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    for (name, value) in head.headers() {
        let name = canonical(name);
        let value = String::from_utf8_lossy(value).into_owned();
        let value = match object.get::<_, Option<String>>(&*name)? {
            Some(before) => format!("{before}, {value}"),
            None => value,
        };
        object.set(name, value)?;
    }
    Ok(object)
}

/// Waits for the server, for so many milliseconds (for ever if negative). Returns `[event, data]`, `['end', code,
/// error]`, or `undefined` if nothing came.
fn next<'js>(ctx: Ctx<'js>, handle: Class<'js, Handle>, wait_ms: f64) -> Result<Value<'js>> {
    let user = User::of(&ctx);
    let socket = Handle::socket(&handle);
    // A server that never pauses must not keep the other virtual users waiting.
    if user.control.poll_interrupt() {
        return Err(Exception::throw_message(&ctx, "the iteration was interrupted"));
    }
    let coming = poll_fn(|cx| socket.poll(cx, true));
    let received = match Duration::try_from_secs_f64(wait_ms / 1e3) {
        Ok(wait) => user.wait(&ctx, tokio::time::timeout(wait, coming))?.ok(),
        Err(_) => Some(user.wait(&ctx, coming)?),
    };
    match received {
        Some(event) => to_js(&ctx, &user, &socket, event),
        None => Ok(Value::new_undefined(ctx)),
    }
}

fn to_js<'js>(
    ctx: &Ctx<'js>,
    user: &User,
    socket: &Socket,
    event: SocketEvent,
) -> Result<Value<'js>> {
    const GOING_AWAY: u16 = 1001;
    let message = match event {
        SocketEvent::Message(message) => message,
        SocketEvent::End(end) => {
            let code = if let End::Closed { code, .. } = end { code } else { GOING_AWAY };
            return List(("end", code, end.is_unexpected().then(|| failure(end)))).into_js(ctx);
        }
        SocketEvent::Changed => return List(("end", GOING_AWAY)).into_js(ctx),
    };
    if let Incoming::Text(_) | Incoming::Binary(_) = message {
        socket.count(user, Builtin::WsMsgsReceived, 1.0);
    }
    match message {
        Incoming::Text(text) => List(("message", raw::text(ctx, &text)?)).into_js(ctx),
        Incoming::Binary(bytes) => {
            List(("binaryMessage", ArrayBuffer::new(ctx.clone(), bytes)?)).into_js(ctx)
        }
        Incoming::Ping(_) => List(("ping",)).into_js(ctx),
        Incoming::Pong(payload) => {
            socket.track_pong(user, &payload);
            List(("pong",)).into_js(ctx)
        }
    }
}

/// An error: its text, and code and reason of a close frame.
type Failure = List<(String, Option<u16>, Option<String>)>;

fn failure(end: End) -> Failure {
    let text = end.to_string();
    match end {
        End::Closed { code, text: reason } => List((text, Some(code), Some(reason))),
        _ => List((text, None, None)),
    }
}

/// Waits until everything is written; returns the error, if any.
fn flush(
    ctx: &Ctx<'_>,
    user: &User,
    queued: std::result::Result<(), End>,
    flushed: impl Future<Output = std::result::Result<(), End>>,
) -> Result<Option<Failure>> {
    let result = match queued {
        Ok(()) => user.wait(ctx, flushed)?,
        Err(end) => Err(end),
    };
    Ok(result.err().map(failure))
}

/// Sends a string or a buffer; returns the error, if any.
fn send<'js>(
    ctx: Ctx<'js>,
    handle: Class<'js, Handle>,
    data: Value<'js>,
) -> Result<Option<Failure>> {
    let user = User::of(&ctx);
    let socket = Handle::socket(&handle);
    let opcode = if data.is_string() { Opcode::Text } else { Opcode::Binary };
    let queued = socket.send(opcode, &bytes_of(&ctx, &data)?);
    let error = flush(&ctx, &user, queued, poll_fn(|cx| socket.poll_flush(cx)))?;
    // As in k6, even after an error.
    socket.count(&user, Builtin::WsMsgsSent, 1.0);
    Ok(error)
}

/// Sends a ping; returns the error, if any.
fn ping<'js>(ctx: Ctx<'js>, handle: Class<'js, Handle>) -> Result<Option<Failure>> {
    let socket = Handle::socket(&handle);
    flush(&ctx, &User::of(&ctx), socket.ping(), poll_fn(|cx| socket.poll_flush(cx)))
}

/// Sends a close frame and closes; returns the error, if any.
fn close<'js>(ctx: Ctx<'js>, handle: Class<'js, Handle>, code: f64) -> Result<Option<Failure>> {
    let user = User::of(&ctx);
    let socket = Handle::socket(&handle);
    // Go's conversion of an integer to 16 bits.
    let queued = socket.send_close(code as i64 as u16, "");
    let flushed = async {
        let written = poll_fn(|cx| socket.poll_flush(cx));
        let in_time = tokio::time::timeout(WRITE_TIMEOUT, written).await;
        in_time.unwrap_or_else(|_| Err(End::Failed("write: i/o timeout".to_owned())))
    };
    let error = flush(&ctx, &user, queued, flushed);
    socket.finish(&user);
    error
}

fn end<'js>(ctx: Ctx<'js>, handle: Class<'js, Handle>) {
    let user = User::of(&ctx);
    let socket = Handle::socket(&handle);
    socket.finish(&user);
    socket.count_session(&user);
}
