//! The modules scripts import, one file per module.
#![expect(
    clippy::needless_pass_by_value,
    reason = "native functions own the values that QuickJS hands them"
)]

/// Makes a type a script class without a constructor; `$define` adds its members to the prototype.
macro_rules! script_class {
    ($Type:ident, $name:literal, $define:expr) => {
        impl<'js> rquickjs::class::JsClass<'js> for $Type {
            const NAME: &'static str = $name;
            type Mutable = rquickjs::class::Readable;

            fn prototype(ctx: &Ctx<'js>) -> Result<Option<rquickjs::Object<'js>>> {
                let prototype = rquickjs::Object::new(ctx.clone())?;
                let define: fn(&rquickjs::Object<'js>) -> Result<()> = $define;
                define(&prototype)?;
                Ok(Some(prototype))
            }

            fn constructor(_: &Ctx<'js>) -> Result<Option<rquickjs::function::Constructor<'js>>> {
                Ok(None)
            }
        }
    };
}

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
mod redis;
mod request;
mod response;
mod secrets;
mod text_coding;
mod timers;
mod url;
mod web_crypto;
mod websockets;
mod ws;
mod ws_params;

use std::collections::BTreeSet;
use std::rc::Rc;

use rquickjs::function::IntoJsFunc;
use rquickjs::module::{Declarations, Declared, Exports, ModuleDef};
use rquickjs::object::Property;
use rquickjs::{Ctx, Exception, FromJs, Function, Module, Object, Result, Value};

pub(super) use self::bytes::text_or_bytes;

use super::syntax::{Syntax, Use};
use super::user::User;
use super::{ScriptError, compiled, jslib};

/// Modules of k6 that are missing here, and the alternative.
const MISSING_MODULES: &[(&str, &str)] = &[
    ("k6/browser", OF_K6),
    ("k6/crypto/x509", "read the certificate before the test, and open() what is needed of it"),
    ("k6/experimental/browser", "k6 has it as k6/browser, and runs such scripts"),
    ("k6/experimental/grpc", "k6 has it as k6/net/grpc, and runs such scripts"),
    ("k6/net/grpc", OF_K6),
    ("k6/x/redis", "k6/experimental/redis is"),
];

const OF_K6: &str = "k6 itself runs such scripts";

/// The alternative for extensions, which need another build of k6.
const EXTENSION: &str = "a k6 that is built with it runs such scripts";

/// Modules removed from k6, and its message about them.
const REMOVED_MODULES: &[(&str, &str)] = &[
    ("k6/experimental/timers", "its functions are global: remove the import"),
    (
        "k6/experimental/tracing",
        "it has been removed: set the headers of requests, or use the library httpx",
    ),
    ("k6/experimental/webcrypto", "`crypto` is global: remove the import"),
];

/// Replaces a missing module and has every member, so that the init code goes on and shows what else is missing.
const STAND_IN: &str = "const any = new Proxy(function () {}, {
    get: (_, key) => key === 'then' ? undefined : key === Symbol.toPrimitive ? () => '' : any,
    apply: () => any,
    construct: () => any,
});
export default any;
";

/// `k6/experimental/streams`, written in JavaScript alone.
const STREAMS: &str = include_str!("modules/streams.js");

struct NativeModule {
    name: &'static str,
    declare: for<'js> fn(Ctx<'js>, &str) -> Result<Module<'js, Declared>>,
    /// Names of its exports, separated by spaces.
    members: &'static str,
}

/// A [`NativeModule`] whose default object `$object` makes for a virtual user; its `$members` are exported by name,
/// too.
macro_rules! native {
    ($name:literal, $members:expr, $object:expr) => {{
        struct Definition;

        impl ModuleDef for Definition {
            fn declare(declarations: &Declarations<'_>) -> Result<()> {
                declare_members(declarations, $members)
            }

            fn evaluate<'js>(ctx: &Ctx<'js>, exports: &Exports<'js>) -> Result<()> {
                export_members(exports, $members, $object(ctx)?)
            }
        }

        NativeModule {
            name: $name,
            declare: |ctx, name| Module::declare_def::<Definition, _>(ctx, name),
            members: $members,
        }
    }};
}

fn declare_members(declarations: &Declarations<'_>, members: &str) -> Result<()> {
    declarations.declare("default")?;
    members.split_whitespace().try_for_each(|name| declarations.declare(name).map(drop))
}

fn export_members<'js>(exports: &Exports<'js>, members: &str, object: Object<'js>) -> Result<()> {
    for name in members.split_whitespace() {
        exports.export(name, object.get::<_, Value<'js>>(name)?)?;
    }
    exports.export("default", object).map(drop)
}

const NATIVE: &[NativeModule] = &[
    native!("k6", k6::MEMBERS, k6::object),
    native!("k6/crypto", crypto::MEMBERS, crypto::object),
    native!("k6/data", data::MEMBERS, data::object),
    native!("k6/encoding", encoding::MEMBERS, encoding::object),
    native!("k6/execution", execution::MEMBERS, execution::object),
    native!("k6/experimental/csv", files::CSV_MEMBERS, files::csv),
    native!("k6/experimental/fs", files::FS_MEMBERS, files::fs),
    native!("k6/experimental/redis", redis::MEMBERS, redis::object),
    NativeModule {
        name: "k6/experimental/streams",
        declare: |ctx, name| compiled::module(&ctx, name, || STREAMS.to_owned()),
        members: "CountQueuingStrategy ReadableStream ReadableStreamDefaultReader",
    },
    native!("k6/experimental/websockets", websockets::MEMBERS, websockets::object),
    native!("k6/html", html::MEMBERS, html::object),
    native!("k6/http", http::MEMBERS, http::object),
    native!("k6/metrics", metrics::MEMBERS, metrics::object),
    native!("k6/secrets", secrets::MEMBERS, secrets::object),
    native!("k6/timers", timers::MEMBERS, timers::object),
    native!("k6/websockets", websockets::MEMBERS, websockets::object),
    native!("k6/ws", ws::MEMBERS, ws::object),
];

/// The library `url` of jslib.k6.io.
const URL: NativeModule = native!("url", url::MEMBERS, url::object);

fn find(name: &str) -> Option<&'static NativeModule> {
    NATIVE.iter().find(|known| known.name == name)
}

/// Members of exported objects, and of a default object whose members are not the exports.
const OBJECTS: &[(&str, &str)] = &[
    ("k6/execution.instance", execution::INSTANCE),
    ("k6/execution.scenario", execution::SCENARIO),
    ("k6/execution.test", execution::TEST),
    ("k6/execution.vu", execution::VU),
    ("k6/execution.vu.metrics", execution::VU_METRICS),
    ("k6/secrets", "get source"),
];

/// Members of every object.
const OF_ALL: &str =
    "constructor hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf";

pub(super) fn is_built_in(name: &str) -> bool {
    find(name).is_some()
}

/// True for modules whose default object has all their members.
pub(super) fn has_default(name: &str) -> bool {
    is_built_in(name) || instead(name).is_some()
}

/// Prefix for a built-in module that is wrapped by another of its name.
const BEHIND: &str = "k6/native:";

/// Declares the built-in module `name`; `None` for any other. As in k6, importing a member it does not have
/// (`absent`) yields `null`.
pub(super) fn declare<'js>(
    ctx: &Ctx<'js>,
    name: &str,
    absent: &BTreeSet<String>,
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
    if instead(name).is_some() {
        let names: Vec<_> = absent.iter().map(|name| format!("any as {name}")).collect();
        let text = format!("{STAND_IN} export {{ {} }};", names.join(", "));
        return Some(Module::declare(ctx.clone(), name, text));
    }
    let asked = name.strip_prefix(BEHIND).unwrap_or(name);
    if let Some(module) = find(asked) {
        return Some((module.declare)(ctx.clone(), name));
    }
    if jslib::is_url(asked) {
        return Some((URL.declare)(ctx.clone(), name));
    }
    jslib::is_built_in(asked).then(|| compiled::module(ctx, name, || jslib::source(asked)))
}

/// Uses of members that a built-in module, or one of its members, does not have: such calls would fail during the test.
pub(super) fn unknown_members(source: &Syntax) -> impl Iterator<Item = &Use> + '_ {
    let objects = OBJECTS.iter().map(|(name, members)| (*name, *members));
    let native = NATIVE.iter().map(|module| (module.name, module.members));
    let known: Vec<_> = objects.chain(native).collect();
    source.uses.iter().filter(move |used| {
        let Some((_, members)) = known.iter().find(|(name, _)| *name == used.module) else {
            return false;
        };
        used.member != "default" && !has(members, &used.member) && !has(OF_ALL, &used.member)
    })
}

/// True if the built-in module exports `member` by name.
pub(super) fn exports(module: &str, member: &str) -> bool {
    let known = find(module).map(|module| has(module.members, member));
    member == "default" || known.unwrap_or_else(|| instead(module).is_none())
}

fn has(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|one| one == name)
}

/// The alternative to a module of k6 that is missing here; `None` for other modules.
pub(super) fn instead(module: &str) -> Option<&'static str> {
    let known = MISSING_MODULES.iter().find(|(name, _)| *name == module);
    let known = known.map(|(_, instead)| *instead);
    known.or_else(|| module.starts_with("k6/x/").then_some(EXTENSION))
}

pub(super) fn define<'js, P>(
    object: &Object<'js>,
    name: &str,
    function: impl IntoJsFunc<'js, P> + 'js,
) -> Result<()> {
    object.set(name, Function::new(object.ctx().clone(), function)?.with_name(name)?)
}

/// Throws an error with this message unless `holds`.
pub(super) fn ensure(ctx: &Ctx<'_>, holds: bool, message: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Exception::throw_message(ctx, message)) }
}

/// The virtual user of a script. Throws in its init code.
fn running_user(ctx: &Ctx<'_>, refused: &str) -> Result<Rc<User>> {
    let user = User::of(ctx);
    ensure(ctx, !user.is_initialising(), refused)?;
    Ok(user)
}

/// Calls the function that a built-in script evaluates to, with an object of native functions.
fn library<'js, V: FromJs<'js>>(
    ctx: &Ctx<'js>,
    name: &str,
    text: &str,
    add_natives: impl FnOnce(&Object<'js>) -> Result<()>,
) -> Result<V> {
    let native = Object::new(ctx.clone())?;
    add_natives(&native)?;
    compiled::library::<Function<'js>>(ctx, name, text)?.call((native,))
}

/// As [`library`], called once per virtual user: the result is kept as the hidden global `kept`.
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
    let library: Object<'js> = library(ctx, name, text, add_natives)?;
    globals.prop(kept, Property::from(library.clone()))?;
    Ok(library)
}

/// The error for a module that is not built in.
pub(super) fn unknown(name: &str) -> ScriptError {
    if let Some(instead) = instead(name) {
        return ScriptError::Replaced { what: format!("module `{name}`"), instead };
    }
    let removed = REMOVED_MODULES.iter().find(|(known, _)| *known == name);
    ScriptError::Exception(match removed {
        Some((_, instead)) => format!("GoError: {name}: {instead}"),
        None => format!("GoError: unknown module: {name}"),
    })
}

pub(super) fn install_globals(ctx: &Ctx<'_>) -> Result<()> {
    files::install(ctx)?;
    web_crypto::install(ctx)?;
    text_coding::install(ctx)?;
    timers::install(&ctx.globals())
}
