//! `k6/experimental/redis`: a client with one connection, whose methods return promises.

use std::cell::Cell;
use std::rc::Rc;

use rquickjs::class::Trace;
use rquickjs::{Class, Ctx, Exception, IntoJs, JsLifetime, Object, Result, Value};
use tokio::sync::Mutex;

use super::{define, library, running_user};
use crate::redis::{Link, LinkError, Reply, Target, TargetError};
use crate::script::raw;
use crate::script::sockets::count_traffic;
use crate::script::tasks::{Settle, Tasks};
use crate::script::user::User;

const LIBRARY: &str = include_str!("redis.js");

pub(super) const MEMBERS: &str = "Client";

pub(super) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    library(ctx, "redis.js", LIBRARY, |native| {
        define(native, "open", open)?;
        define(native, "send", send)?;
        define(native, "isConnected", is_connected)
    })
}

type ReplyResult = std::result::Result<Reply, LinkError>;

struct Connection {
    target: Target,
    link: Mutex<Option<Link>>,
    /// A command has been sent, which k6 reports as connected.
    used: Cell<bool>,
}

#[derive(JsLifetime, Trace)]
struct Handle(#[qjs(skip_trace)] Rc<Connection>);

script_class!(Handle, "Connection", |_| Ok(()));

/// A client of the server at an address, or with options as JSON. Connects with its first command.
fn open<'js>(ctx: Ctx<'js>, text: String, is_address: bool) -> Result<Class<'js, Handle>> {
    let target = match is_address {
        true => Target::from_address(&text),
        false => Target::from_options(&text),
    };
    let target = target.map_err(|error| match error {
        TargetError::Invalid(_) => Exception::throw_message(&ctx, &error.to_string()),
        TargetError::Unsupported(feature) => User::of(&ctx).refuse_feature(&ctx, feature),
    })?;
    let connection = Connection { target, link: Mutex::default(), used: Cell::new(false) };
    Class::instance(ctx, Handle(Rc::new(connection)))
}

fn is_connected(handle: Class<'_, Handle>) -> bool {
    handle.borrow().0.used.get()
}

/// Returns a promise of the reply to a command.
fn send<'js>(
    ctx: Ctx<'js>,
    handle: Class<'js, Handle>,
    command: Vec<String>,
) -> Result<Value<'js>> {
    let refused = "connecting to a redis server in the init context is not supported";
    let user = running_user(&ctx, refused)?;
    let connection = handle.borrow().0.clone();
    connection.used.set(true);
    let sender = user.clone();
    let command: Vec<Rc<str>> = command.into_iter().map(Into::into).collect();
    Tasks::start_work(&user, &ctx, async move {
        let reply = connection.call(&sender, &command).await;
        let settle: Settle = Box::new(move |ctx| match reply {
            Ok(reply) => value(ctx, &reply),
            Err(error) => Err(Exception::throw_message(ctx, &error.to_string())),
        });
        settle
    })
}

impl Connection {
    /// Sends a command after the previous ones.
    async fn call(&self, user: &User, command: &[Rc<str>]) -> ReplyResult {
        let mut kept = self.link.lock().await;
        // Taken out, so that an interruption from here on leaves no connection that waits for a reply.
        let mut idle = kept.take();
        if let Some(mut link) = idle.take_if(Link::is_idle) {
            let reply = self.exchange(user, &mut link, command).await;
            // A server that has closed the connection has most likely not seen the command.
            if !matches!(reply, Err(LinkError::Closed | LinkError::Io(_))) {
                return Self::keep(&mut kept, link, reply);
            }
        }
        let mut link = Link::open(&user.event_loop.network, &self.target).await?;
        let reply = self.exchange(user, &mut link, command).await;
        Self::keep(&mut kept, link, reply)
    }

    async fn exchange(&self, user: &User, link: &mut Link, command: &[Rc<str>]) -> ReplyResult {
        let reply = link.call(&self.target, command).await;
        count_traffic(user, link.take_traffic());
        reply
    }

    /// Keeps a connection for the next command after a reply.
    fn keep(kept: &mut Option<Link>, link: Link, reply: ReplyResult) -> ReplyResult {
        let reply = reply?;
        *kept = Some(link);
        match reply {
            Reply::Error(text) => Err(LinkError::Refused(text)),
            Reply::Nil => Err(LinkError::Nil),
            reply => Ok(reply),
        }
    }
}

fn value<'js>(ctx: &Ctx<'js>, reply: &Reply) -> Result<Value<'js>> {
    match reply {
        Reply::Text(bytes) => raw::text(ctx, bytes),
        Reply::Number(number) => (*number as f64).into_js(ctx),
        Reply::Nil => Ok(Value::new_null(ctx.clone())),
        // Inside a list.
        Reply::Error(text) => text.as_str().into_js(ctx),
        Reply::List(members) => {
            let members = members.iter().map(|member| value(ctx, member));
            members.collect::<Result<Vec<_>>>()?.into_js(ctx)
        }
    }
}
