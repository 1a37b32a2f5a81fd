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
mod form;
mod http;
mod json_path;
mod k6;
mod metrics;
mod multipart;
mod open;
mod request;
mod response;
mod timers;
mod web_crypto;

use rquickjs::function::This;
use rquickjs::module::{Declarations, Declared, Exports};
use rquickjs::object::{Accessor, Property};
use rquickjs::{Ctx, Module, Object, Result, Value};

use super::user::User;
use super::{ScriptError, jslib, scan};

/// Modules k6 has and this engine does not.
const MISSING_MODULES: &[&str] = &[
    "k6/browser",
    "k6/crypto/x509",
    "k6/experimental/csv",
    "k6/experimental/fs",
    "k6/experimental/redis",
    "k6/experimental/streams",
    "k6/experimental/websockets",
    "k6/html",
    "k6/net/grpc",
    "k6/secrets",
    "k6/websockets",
    "k6/ws",
];

/// Globals k6 has and this engine does not.
const MISSING_GLOBALS: &[&str] = &["require", "TextEncoder", "TextDecoder"];

/// Declares the built-in module `name`; `None` when there is no such module.
pub(super) fn declare<'js>(ctx: &Ctx<'js>, name: &str) -> Option<Result<Module<'js, Declared>>> {
    match name {
        "k6" => Some(Module::declare_def::<k6::K6, _>(ctx.clone(), name)),
        "k6/crypto" => Some(Module::declare_def::<crypto::Crypto, _>(ctx.clone(), name)),
        "k6/data" => Some(Module::declare_def::<data::Data, _>(ctx.clone(), name)),
        "k6/encoding" => Some(Module::declare_def::<encoding::Encoding, _>(ctx.clone(), name)),
        "k6/execution" => Some(Module::declare_def::<execution::Execution, _>(ctx.clone(), name)),
        "k6/timers" => Some(Module::declare_def::<timers::Timers, _>(ctx.clone(), name)),
        "k6/http" => Some(Module::declare_def::<http::Http, _>(ctx.clone(), name)),
        "k6/metrics" => Some(Module::declare_def::<metrics::Metrics, _>(ctx.clone(), name)),
        _ => {
            let source = jslib::source(name)?;
            Some(Module::declare(ctx.clone(), name, source))
        }
    }
}

/// The first member of a built-in module, or global, that `source` uses and that is missing here.
///
/// # Errors
/// `Unsupported` with its name.
pub(super) fn refuse_missing_members(source: &str) -> std::result::Result<(), ScriptError> {
    for used in scan::uses(source) {
        let members = match used.module.as_str() {
            "k6" => &k6::MEMBERS,
            "k6/http" => &http::MEMBERS,
            "k6/metrics" => &metrics::MEMBERS,
            // Nothing of the other modules is missing.
            _ => continue,
        };
        if members.missing.contains(&used.member.as_str()) {
            return Err(ScriptError::Unsupported(format!("`{}{}`", members.prefix, used.member)));
        }
    }
    match scan::used_global(source, MISSING_GLOBALS) {
        Some(name) => Err(ScriptError::Unsupported(format!("`{name}`"))),
        None => Ok(()),
    }
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
    if MISSING_MODULES.contains(&name) || name.starts_with("k6/x/") {
        ScriptError::Unsupported(format!("module `{name}`"))
    } else {
        ScriptError::Exception(format!("GoError: unknown module: {name}"))
    }
}

/// Defines the globals of the engine, and the missing ones so that using one says so.
pub(super) fn install_globals(ctx: &Ctx<'_>) -> Result<()> {
    open::install(ctx)?;
    web_crypto::install(ctx)?;
    timers::define(ctx, &ctx.globals())?;
    refuse_members(&ctx.globals(), "", MISSING_GLOBALS)
}

/// Names a built-in module exports: one by one, and all as the default object.
struct Members {
    present: &'static [&'static str],
    /// Exported by k6, refused by name here.
    missing: &'static [&'static str],
    /// What users call the default object.
    prefix: &'static str,
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
        refuse_members(object, self.prefix, self.missing)?;
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
