//! `k6/websockets`: sockets beside everything else an iteration does. The classes are JavaScript; a task of the event
//! loop reads and writes for each socket, and the iteration goes on until all of them are closed.

use std::future::poll_fn;
use std::iter;
use std::rc::Rc;

use rquickjs::{ArrayBuffer, Class, Ctx, Exception, Function, IntoJs, Object, Result, Value};

use super::bytes::bytes_of;
use super::ws_params::{Handle, WsParams, check};
use super::{define, library};
use crate::http::Head;
use crate::metrics::Builtin;
use crate::script::raw;
use crate::script::sockets::{ReadyState, Socket, SocketEvent};
use crate::script::tasks::{Feed, Tasks};
use crate::script::user::User;
use crate::websocket::{Dial, End, Incoming, Opcode};

const LIBRARY: &str = include_str!("websockets.js");

pub(super) const MEMBERS: &str = "Blob WebSocket";

pub(super) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    library(ctx, "websockets.js", LIBRARY, |native| {
        define(native, "check", check)?;
        define(native, "open", open)?;
        define(native, "state", |handle: Class<'js, Handle>| {
            Handle::socket(&handle).state.get() as u8
        })?;
        define(native, "unsent", |handle: Class<'js, Handle>| {
            Handle::socket(&handle).unsent() as f64
        })?;
        define(native, "send", send)?;
        define(native, "ping", ping)?;
        define(native, "close", close)?;
        define(native, "drop", drop_connection)?;
        define(native, "warn", warn)?;
        define(native, "refuse", refuse)?;
        define(native, "encode", encode)?;
        define(native, "decode", decode)
    })
}

/// Starts to connect; `deliver` is called with every event.
fn open<'js>(
    ctx: Ctx<'js>,
    url: String,
    protocols: Vec<String>,
    params: Value<'js>,
    deliver: Function<'js>,
) -> Result<Class<'js, Handle>> {
    let user = User::of(&ctx);
    let params = WsParams::read(&ctx, &user, Some(params), true)?;
    let WsParams { headers, tags, jar, deflates } = params;
    // As in k6, the name is the address, and a name set by the script replaces both.
    let own = tags.iter().rev().find(|(key, _)| key == "name").map(|(_, name)| name.clone());
    let name = own.as_deref().unwrap_or(&url);
    let socket = Socket::new(&user, &[("url", name), ("name", name)], &tags);
    let dial = Box::new(Dial { url, headers, protocols, deflates, jar });
    let reader = socket.clone();
    Tasks::start_events(&user, &ctx, deliver, |feed| run(reader, dial, feed))?;
    Class::instance(ctx, Handle(socket))
}

async fn run(socket: Rc<Socket>, dial: Box<Dial>, feed: Feed) {
    // Boxed: connecting needs far more space than reading, and the future lives as long as the socket.
    let connected = Box::pin(socket.connect(&feed.user, &dial)).await;
    drop(dial);
    match connected {
        Ok(head) => feed_open(&feed, &socket, &head),
        Err(error) => {
            socket.started.take();
            feed_closed(&feed, &socket, Some(error.to_string()), None);
            return;
        }
    }
    let end = read(&socket, &feed).await;
    let error = end.as_ref().filter(|end| end.is_unexpected()).map(ToString::to_string);
    let close = match end {
        Some(End::Closed { code, text }) => {
            if code != 1006 {
                // Fails if a close frame of the script was sent before.
                let _ = socket.send_close(code, "");
            }
            Some((code, text))
        }
        _ => None,
    };
    socket.finish(&feed.user);
    feed_closed(&feed, &socket, error, close);
}

/// Reads until the end; `None` when the script has closed the connection, or the server does not answer a close frame
/// in time.
async fn read(socket: &Rc<Socket>, feed: &Feed) -> Option<End> {
    loop {
        let close_by = socket.close_by.get();
        let coming = poll_fn(|cx| socket.poll(cx, close_by.is_some()));
        let event = match close_by {
            Some(deadline) => tokio::time::timeout_at(deadline, coming).await.ok()?,
            None => coming.await,
        };
        match event {
            SocketEvent::Message(message) => feed_message(feed, socket, message),
            SocketEvent::End(end) => return Some(end),
            SocketEvent::Changed if socket.is_connected() => {}
            SocketEvent::Changed => return None,
        }
    }
}

fn feed_open(feed: &Feed, socket: &Rc<Socket>, head: &Head) {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let protocol = head.values("sec-websocket-protocol").next().map(text).unwrap_or_default();
    let extensions: Vec<String> = head.values("sec-websocket-extensions").map(text).collect();
    let socket = socket.clone();
    feed.push(Box::new(move |ctx| {
        let is_awaited = socket.state.get() == ReadyState::Connecting;
        if is_awaited {
            socket.state.set(ReadyState::Open);
        }
        let name = if is_awaited { "open" } else { "connected" };
        Ok(vec![name.into_js(ctx)?, protocol.into_js(ctx)?, extensions.into_js(ctx)?])
    }));
}

fn feed_message(feed: &Feed, socket: &Rc<Socket>, message: Incoming) {
    let (Incoming::Text(data)
    | Incoming::Binary(data)
    | Incoming::Ping(data)
    | Incoming::Pong(data)) = &message;
    let bytes = data.len();
    if let Incoming::Pong(payload) = &message {
        socket.track_pong(&feed.user, payload);
    }
    let is_data = matches!(message, Incoming::Text(_) | Incoming::Binary(_));
    socket.hold(bytes);
    let (user, socket) = (feed.user.clone(), socket.clone());
    feed.push(Box::new(move |ctx| {
        socket.release(bytes);
        match socket.state.get() {
            ReadyState::Open => {}
            ReadyState::Closing if !is_data => {}
            // As in k6, the script sees no messages after it has closed.
            _ => return Ok(Vec::new()),
        }
        if is_data {
            socket.count(&user, Builtin::WsMsgsReceived, 1.0);
        }
        let (name, data) = match message {
            Incoming::Text(text) => ("message", Some(raw::text(ctx, &text)?)),
            Incoming::Binary(data) => {
                ("message", Some(ArrayBuffer::new(ctx.clone(), data)?.into_value()))
            }
            Incoming::Ping(_) => ("ping", None),
            Incoming::Pong(_) => ("pong", None),
        };
        Ok(iter::once(name.into_js(ctx)?).chain(data).collect())
    }));
}

/// Reports the end: an error if there was one, and the server's close frame.
fn feed_closed(
    feed: &Feed,
    socket: &Rc<Socket>,
    error: Option<String>,
    close: Option<(u16, String)>,
) {
    let (user, socket) = (feed.user.clone(), socket.clone());
    feed.push(Box::new(move |ctx| {
        let before = socket.state.replace(ReadyState::Closed);
        socket.count_session(&user);
        if before == ReadyState::Closed {
            return Ok(Vec::new());
        }
        let (code, reason) = close.unzip();
        let (code, reason) = (code.into_js(ctx)?, reason.into_js(ctx)?);
        Ok(vec!["closed".into_js(ctx)?, error.into_js(ctx)?, code, reason])
    }));
}

/// Counts a sent message. A lost connection is no error here: its event is on the way.
fn sent(ctx: &Ctx<'_>, socket: &Socket, result: std::result::Result<(), End>) -> Result<()> {
    match result {
        Ok(()) => socket.count(&User::of(ctx), Builtin::WsMsgsSent, 1.0),
        Err(error @ End::Failed(_)) => {
            return Err(Exception::throw_message(ctx, &error.to_string()));
        }
        Err(_) => {}
    }
    Ok(())
}

fn send<'js>(ctx: Ctx<'js>, handle: Class<'js, Handle>, data: Value<'js>) -> Result<()> {
    let socket = Handle::socket(&handle);
    let opcode = if data.is_string() { Opcode::Text } else { Opcode::Binary };
    let result = socket.send(opcode, &bytes_of(&ctx, &data)?);
    sent(&ctx, &socket, result)
}

fn ping<'js>(ctx: Ctx<'js>, handle: Class<'js, Handle>) -> Result<()> {
    let socket = Handle::socket(&handle);
    sent(&ctx, &socket, socket.ping())
}

fn close<'js>(ctx: Ctx<'js>, handle: Class<'js, Handle>, code: u16, reason: String) -> Result<()> {
    let socket = Handle::socket(&handle);
    let result = match socket.state.replace(ReadyState::Closing) {
        ReadyState::Connecting => {
            socket.early_close.replace(Some((code, reason)));
            Ok(())
        }
        _ => socket.send_close(code, &reason),
    };
    sent(&ctx, &socket, result)
}

/// Closes without a close frame, after a function of the script has thrown.
fn drop_connection(ctx: Ctx<'_>, handle: Class<'_, Handle>) {
    let user = User::of(&ctx);
    let socket = Handle::socket(&handle);
    socket.state.set(ReadyState::Closed);
    socket.finish(&user);
    // Not counted: in k6 such a session ends after the iteration.
    socket.started.take();
}

fn warn(ctx: Ctx<'_>, message: String) {
    let user = User::of(&ctx);
    user.run.log.write_limited(crate::log::Level::Warning, &message, &[]);
}

fn refuse(ctx: Ctx<'_>, feature: String) -> Result<()> {
    Err(User::of(&ctx).refuse_feature(&ctx, &feature))
}

fn encode<'js>(ctx: Ctx<'js>, text: Value<'js>) -> Result<ArrayBuffer<'js>> {
    let bytes = bytes_of(&ctx, &text)?;
    ArrayBuffer::new(ctx, bytes)
}

fn decode<'js>(ctx: Ctx<'js>, buffer: Value<'js>) -> Result<String> {
    Ok(String::from_utf8_lossy(&bytes_of(&ctx, &buffer)?).into_owned())
}
