//! The modules scripts import, one file per module.
#![expect(
    clippy::needless_pass_by_value,
    reason = "native functions own the values that QuickJS hands them"
)]

mod arguments;
mod batch;
mod bytes;
mod cookie_jar;
mod crypto;
mod data;
mod encoding;
mod execution;
pub(crate) mod expected_statuses;
mod files;
mod form;
mod html;
mod http;
mod json_path;
mod k6;
mod metrics;
mod multipart;
mod open;
mod request;
mod response;
mod secrets;
mod subtle;
mod text_coding;
mod timers;
mod url;
mod web_crypto;
mod websockets;
mod ws;
mod ws_params;

use rquickjs::function::This;
use rquickjs::module::{Declarations, Declared, Exports};
use rquickjs::object::{Accessor, Property};
use rquickjs::{Ctx, Module, Object, Result, Value};

use super::syntax::{Syntax, Use};
use super::user::User;
use super::{ScriptError, jslib};

/// Modules k6 has and this engine does not.
const MISSING_MODULES: &[&str] =
    &["k6/browser", "k6/crypto/x509", "k6/experimental/redis", "k6/net/grpc"];

/// `k6/experimental/streams`, which needs nothing of the engine.
const STREAMS: &str = include_str!("streams.js");

const STREAMS_MEMBERS: [&str; 3] =
    ["CountQueuingStrategy", "ReadableStream", "ReadableStreamDefaultReader"];

/// Modules that are built in.
const NATIVE: &[&str] = &[
    "k6",
    "k6/crypto",
    "k6/data",
    "k6/encoding",
    "k6/execution",
    "k6/experimental/csv",
    "k6/experimental/fs",
    "k6/experimental/streams",
    "k6/experimental/websockets",
    "k6/html",
    "k6/http",
    "k6/metrics",
    "k6/secrets",
    "k6/timers",
    "k6/websockets",
    "k6/ws",
];

/// Whether it is one of them.
pub(super) fn is_built_in(name: &str) -> bool {
    NATIVE.contains(&name)
}

/// What stands before the name of a built-in module when another one of that name is put before it.
const BEHIND: &str = "k6/native:";

/// Declares the built-in module `name`; `None` when there is no such module. As in k6 a member that it has not is
/// `null` for those who import it.
pub(super) fn declare<'js>(
    ctx: &Ctx<'js>,
    name: &str,
    absent: &[String],
) -> Option<Result<Module<'js, Declared>>> {
    if !absent.is_empty() && is_built_in(name) {
        let whole = format!("'{BEHIND}{name}'");
        let absent: Vec<_> = absent.iter().map(|name| format!("absent as {name}")).collect();
        let text = format!(
            "export * from {whole}; export {{ default }} from {whole}; let absent = null; export {{ {} }};",
            absent.join(", ")
        );
        return Some(Module::declare(ctx.clone(), name, text));
    }
    match name.strip_prefix(BEHIND).unwrap_or(name) {
        "k6" => Some(Module::declare_def::<k6::K6, _>(ctx.clone(), name)),
        "k6/crypto" => Some(Module::declare_def::<crypto::Crypto, _>(ctx.clone(), name)),
        "k6/data" => Some(Module::declare_def::<data::Data, _>(ctx.clone(), name)),
        "k6/encoding" => Some(Module::declare_def::<encoding::Encoding, _>(ctx.clone(), name)),
        "k6/execution" => Some(Module::declare_def::<execution::Execution, _>(ctx.clone(), name)),
        "k6/experimental/csv" => Some(Module::declare_def::<files::Csv, _>(ctx.clone(), name)),
        "k6/experimental/fs" => Some(Module::declare_def::<files::Fs, _>(ctx.clone(), name)),
        "k6/experimental/streams" => Some(Module::declare(ctx.clone(), name, STREAMS)),
        "k6/timers" => Some(Module::declare_def::<timers::Timers, _>(ctx.clone(), name)),
        "k6/html" => Some(Module::declare_def::<html::Html, _>(ctx.clone(), name)),
        "k6/http" => Some(Module::declare_def::<http::Http, _>(ctx.clone(), name)),
        "k6/secrets" => Some(Module::declare_def::<secrets::Secrets, _>(ctx.clone(), name)),
        "k6/metrics" => Some(Module::declare_def::<metrics::Metrics, _>(ctx.clone(), name)),
        "k6/websockets" | "k6/experimental/websockets" => {
            Some(Module::declare_def::<websockets::WebSockets, _>(ctx.clone(), name))
        }
        "k6/ws" => Some(Module::declare_def::<ws::Ws, _>(ctx.clone(), name)),
        _ if jslib::is_url(name) => Some(Module::declare_def::<url::Urls, _>(ctx.clone(), name)),
        _ => {
            let source = jslib::source(name)?;
            Some(Module::declare(ctx.clone(), name, source))
        }
    }
}

/// Modules that a source imports and that are missing here.
///
/// # Errors
/// `Unsupported` with the names of all of them.
pub(super) fn refuse_missing(source: &Syntax) -> std::result::Result<(), ScriptError> {
    let imported = source.specifiers.iter().filter(|name| is_missing(name));
    let mut missing: Vec<_> = imported.map(|name| format!("module `{name}`")).collect();
    missing.dedup();
    match missing.len() {
        0 => Ok(()),
        1 => Err(ScriptError::Unsupported(missing.remove(0))),
        _ => Err(ScriptError::Unsupported(format!("each of {}", missing.join(", ")))),
    }
}

/// What is used of a built-in module that has no such member: a call would fail in the middle of a test.
pub(super) fn unknown_members(source: &Syntax) -> impl Iterator<Item = &Use> + '_ {
    source.uses.iter().filter(|used| {
        let members = match used.module.as_str() {
            "k6" => k6::MEMBERS.present,
            "k6/crypto" => crypto::MEMBERS.present,
            "k6/data" => data::MEMBERS.present,
            "k6/encoding" => encoding::MEMBERS.present,
            "k6/execution" => execution::MEMBERS.present,
            "k6/experimental/streams" => &STREAMS_MEMBERS,
            "k6/http" => http::MEMBERS.present,
            "k6/metrics" => metrics::MEMBERS.present,
            "k6/timers" => timers::MEMBERS.present,
            _ => return false,
        };
        used.member != "default" && !members.contains(&used.member.as_str())
    })
}

/// Whether it is a module that k6 has and this engine has not.
fn is_missing(module: &str) -> bool {
    MISSING_MODULES.contains(&module) || module.starts_with("k6/x/")
}

/// The bytes of a text or buffer; `None` for any other value.
pub(super) fn text_or_bytes(value: &Value<'_>) -> Result<Option<Vec<u8>>> {
    if let Some(text) = value.as_string() {
        return Ok(Some(text.clone().to_cstring()?.as_str().as_bytes().to_vec()));
    }
    Ok(value.as_object().and_then(bytes::buffer_bytes))
}

/// Why there is no built-in module `name`.
pub(super) fn unknown(name: &str) -> ScriptError {
    if is_missing(name) {
        ScriptError::Unsupported(format!("module `{name}`"))
    } else {
        ScriptError::Exception(format!("GoError: unknown module: {name}"))
    }
}

/// Defines the globals of the engine.
pub(super) fn install_globals(ctx: &Ctx<'_>) -> Result<()> {
    open::install(ctx)?;
    web_crypto::install(ctx)?;
    text_coding::install(ctx)?;
    timers::define(ctx, &ctx.globals())
}

/// Names a built-in module exports: one by one, and all as the default object.
struct Members {
    present: &'static [&'static str],
}

impl Members {
    fn declare(&self, declarations: &Declarations<'_>) -> Result<()> {
        declarations.declare("default")?;
        for name in self.present {
            declarations.declare(*name)?;
        }
        Ok(())
    }

    fn export<'js>(&self, exports: &Exports<'js>, object: &Object<'js>) -> Result<()> {
        for name in self.present {
            exports.export(*name, object.get::<_, Value<'js>>(*name)?)?;
        }
        exports.export("default", object.clone())?;
        Ok(())
    }
}

/// Gives `object` members whose use ends the run with their name.
fn refuse_members<'js>(
    object: &Object<'js>,
    prefix: &'static str,
    names: &'static [&'static str],
) -> Result<()> {
    for name in names {
        let refuse = move |ctx: Ctx<'_>| -> Result<()> {
            Err(User::of(&ctx).refuse_feature(&ctx, &format!("{prefix}{name}")))
        };
        // A script may define something of that name itself.
        let define = move |this: This<Object<'js>>, value: Value<'js>| {
            this.0.prop(*name, Property::from(value).writable().enumerable().configurable())
        };
        object.prop(*name, Accessor::new(refuse, define).configurable())?;
    }
    Ok(())
}
