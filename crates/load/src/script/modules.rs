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
pub(super) mod files;
mod form;
mod html;
mod http;
pub(super) mod json_path;
mod k6;
mod metrics;
mod multipart;
mod open;
mod redis;
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

use std::marker::PhantomData;

use rquickjs::function::IntoJsFunc;
use rquickjs::module::{Declarations, Declared, Exports, ModuleDef};
use rquickjs::object::Property;
use rquickjs::{Ctx, Exception, Function, Module, Object, Result, Value};

pub(super) use self::bytes::text_or_bytes;

use super::syntax::{Syntax, Use};
use super::{ScriptError, compiled, jslib};

/// Modules k6 has and this engine does not.
const MISSING_MODULES: &[&str] = &["k6/browser", "k6/crypto/x509", "k6/net/grpc"];

/// `k6/experimental/streams`, which needs nothing of the engine.
const STREAMS: &str = include_str!("modules/streams.js");

const STREAMS_MEMBERS: &str = "CountQueuingStrategy ReadableStream ReadableStreamDefaultReader";

/// What a module exports, and how that is made for a virtual user.
trait BuiltIn {
    /// Names, exported one by one, and all as members of the default object.
    const MEMBERS: &'static str;

    fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>>;
}

/// As the engine asks for it.
struct Native<M>(PhantomData<M>);

impl<M: BuiltIn> ModuleDef for Native<M> {
    fn declare(declarations: &Declarations<'_>) -> Result<()> {
        declarations.declare("default")?;
        M::MEMBERS.split_whitespace().try_for_each(|name| declarations.declare(name).map(drop))
    }

    fn evaluate<'js>(ctx: &Ctx<'js>, exports: &Exports<'js>) -> Result<()> {
        let object = M::object(ctx)?;
        for name in M::MEMBERS.split_whitespace() {
            exports.export(name, object.get::<_, Value<'js>>(name)?)?;
        }
        exports.export("default", object).map(drop)
    }
}

type Declare = for<'js> fn(Ctx<'js>, &str) -> Result<Module<'js, Declared>>;

/// Modules that are built in, and what they export by name.
const NATIVE: &[(&str, Declare, &str)] = &[
    ("k6", native::<k6::K6>, k6::K6::MEMBERS),
    ("k6/crypto", native::<crypto::Crypto>, crypto::Crypto::MEMBERS),
    ("k6/data", native::<data::Data>, data::Data::MEMBERS),
    ("k6/encoding", native::<encoding::Encoding>, encoding::Encoding::MEMBERS),
    ("k6/execution", native::<execution::Execution>, execution::Execution::MEMBERS),
    ("k6/experimental/csv", native::<files::Csv>, files::Csv::MEMBERS),
    ("k6/experimental/fs", native::<files::Fs>, files::Fs::MEMBERS),
    ("k6/experimental/redis", native::<redis::Redis>, redis::Redis::MEMBERS),
    ("k6/experimental/streams", streams, STREAMS_MEMBERS),
    (
        "k6/experimental/websockets",
        native::<websockets::WebSockets>,
        websockets::WebSockets::MEMBERS,
    ),
    ("k6/html", native::<html::Html>, html::Html::MEMBERS),
    ("k6/http", native::<http::Http>, http::Http::MEMBERS),
    ("k6/metrics", native::<metrics::Metrics>, metrics::Metrics::MEMBERS),
    ("k6/secrets", native::<secrets::Secrets>, secrets::Secrets::MEMBERS),
    ("k6/timers", native::<timers::Timers>, timers::Timers::MEMBERS),
    ("k6/websockets", native::<websockets::WebSockets>, websockets::WebSockets::MEMBERS),
    ("k6/ws", native::<ws::Ws>, ws::Ws::MEMBERS),
];

fn native<'js, M: BuiltIn>(ctx: Ctx<'js>, name: &str) -> Result<Module<'js, Declared>> {
    Module::declare_def::<Native<M>, _>(ctx, name)
}

fn streams<'js>(ctx: Ctx<'js>, name: &str) -> Result<Module<'js, Declared>> {
    compiled::module(&ctx, name, || STREAMS.to_owned())
}

/// What the objects have that the modules export: members of the one that is imported as a whole where those are others
/// than the exports, and members of members.
const OBJECTS: &[(&str, &str)] = &[
    ("k6/execution.instance", execution::INSTANCE),
    ("k6/execution.scenario", execution::SCENARIO),
    ("k6/execution.test", execution::TEST),
    ("k6/execution.vu", execution::VU),
    ("k6/execution.vu.metrics", execution::VU_METRICS),
    ("k6/secrets", "get source"),
];

/// What every object has.
const OF_ALL: &str =
    "constructor hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf";

/// Whether it is one of them.
pub(super) fn is_built_in(name: &str) -> bool {
    NATIVE.iter().any(|(known, ..)| *known == name)
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
    let asked = name.strip_prefix(BEHIND).unwrap_or(name);
    if let Some((_, declare, _)) = NATIVE.iter().find(|(known, ..)| *known == asked) {
        return Some(declare(ctx.clone(), name));
    }
    if jslib::is_url(asked) {
        return Some(native::<url::Urls>(ctx.clone(), name));
    }
    jslib::is_built_in(asked).then(|| compiled::module(ctx, name, || jslib::source(asked)))
}

/// An error with the names of all modules that a source imports and that are missing here.
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

/// What is used of a built-in module, or of its members, that has no such member: a call would fail in the middle of a
/// test.
pub(super) fn unknown_members(source: &Syntax) -> impl Iterator<Item = &Use> + '_ {
    let objects = OBJECTS.iter().map(|(name, members)| (*name, *members));
    let known = objects.chain(NATIVE.iter().map(|(name, _, members)| (*name, *members)));
    let known: Vec<_> = known.collect();
    source.uses.iter().filter(move |used| {
        let Some((_, members)) = known.iter().find(|(name, _)| *name == used.module) else {
            return false;
        };
        used.member != "default" && !has(members, &used.member) && !has(OF_ALL, &used.member)
    })
}

/// Whether the built-in module exports `member` by name.
pub(super) fn exports(module: &str, member: &str) -> bool {
    let known = NATIVE.iter().find(|(name, ..)| *name == module);
    member == "default" || known.is_none_or(|(_, _, members)| has(members, member))
}

fn has(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|one| one == name)
}

/// Whether it is a module that k6 has and this engine has not.
fn is_missing(module: &str) -> bool {
    MISSING_MODULES.contains(&module) || module.starts_with("k6/x/")
}

/// Gives `object` a function of this name.
pub(super) fn define<'js, P>(
    object: &Object<'js>,
    name: &str,
    function: impl IntoJsFunc<'js, P> + 'js,
) -> Result<()> {
    object.set(name, Function::new(object.ctx().clone(), function)?.with_name(name)?)
}

/// Throws an error with this message unless something `holds`.
pub(super) fn ensure(ctx: &Ctx<'_>, holds: bool, message: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Exception::throw_message(ctx, message)) }
}

/// The library of a virtual user that is made once, of native functions, and kept under a name of its own.
fn kept_library<'js>(
    ctx: &Ctx<'js>,
    kept: &str,
    (name, text): (&str, &str),
    add_natives: impl FnOnce(&Object<'js>) -> Result<()>,
) -> Result<Object<'js>> {
    let globals = ctx.globals();
    if let Some(known) = globals.get::<_, Option<Object<'js>>>(kept)? {
        return Ok(known);
    }
    let native = Object::new(ctx.clone())?;
    add_natives(&native)?;
    let make: Function<'js> = compiled::library(ctx, name, text)?;
    let library: Object<'js> = make.call((native,))?;
    globals.prop(kept, Property::from(library.clone()))?;
    Ok(library)
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
    timers::install(&ctx.globals())
}
