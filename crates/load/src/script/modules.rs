//! The modules scripts import, one file per module.
#![expect(
    clippy::needless_pass_by_value,
    reason = "native functions own the values that QuickJS hands them"
)]

/// Makes a type a class of scripts, which they cannot construct, with these methods.
macro_rules! script_class {
    ($Type:ident, $name:literal $(, $method:ident)*) => {
        impl<'js> rquickjs::class::JsClass<'js> for $Type {
            const NAME: &'static str = $name;
            type Mutable = rquickjs::class::Readable;

            fn prototype(ctx: &Ctx<'js>) -> Result<Option<rquickjs::Object<'js>>> {
                let prototype = rquickjs::Object::new(ctx.clone())?;
                $(super::define(&prototype, stringify!($method), $method)?;)*
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
use std::rc::Rc;

use rquickjs::function::IntoJsFunc;
use rquickjs::module::{Declarations, Declared, Exports, ModuleDef};
use rquickjs::object::Property;
use rquickjs::{Ctx, Exception, Function, Module, Object, Result, Value};

pub(super) use self::bytes::text_or_bytes;

use super::syntax::{Syntax, Use};
use super::user::User;
use super::{ScriptError, compiled, jslib};

/// Modules k6 has and this engine does not, and what to do instead.
const MISSING_MODULES: &[(&str, &str)] = &[
    ("k6/browser", OF_K6),
    ("k6/crypto/x509", "read the certificate before the test, and open() what is needed of it"),
    ("k6/experimental/browser", "k6 has it as k6/browser, and runs such scripts"),
    ("k6/experimental/grpc", "k6 has it as k6/net/grpc, and runs such scripts"),
    ("k6/net/grpc", OF_K6),
    ("k6/x/redis", "k6/experimental/redis is"),
];

const OF_K6: &str = "k6 itself runs such scripts";

/// The same of extensions, which are parts of another k6.
const EXTENSION: &str = "a k6 that is built with it runs such scripts";

/// Modules that k6 had before, and its message about them.
const REMOVED_MODULES: &[(&str, &str)] = &[
    ("k6/experimental/timers", "its functions are global: remove the import"),
    (
        "k6/experimental/tracing",
        "it has been removed: set the headers of requests, or use the library httpx",
    ),
    ("k6/experimental/webcrypto", "`crypto` is global: remove the import"),
];

/// Stands for a missing module and has every member, so that the init code goes on and shows what else is missing.
const STAND_IN: &str = "const any = new Proxy(function () {}, {
    get: (_, key) => key === 'then' ? undefined : key === Symbol.toPrimitive ? () => '' : any,
    apply: () => any,
    construct: () => any,
});
export default any;
";

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

/// Whether everything that it has is in its default object.
pub(super) fn has_default(name: &str) -> bool {
    is_built_in(name) || instead(name).is_some()
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
    if instead(name).is_some() {
        let names: Vec<_> = absent.iter().map(|name| format!("any as {name}")).collect();
        let text = format!("{STAND_IN} export {{ {} }};", names.join(", "));
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

/// Errors with the names of all modules that a source imports and that are missing here.
pub(super) fn missing(source: &Syntax) -> impl Iterator<Item = ScriptError> + '_ {
    let imported = source.specifiers.iter().filter(|name| instead(name).is_some());
    imported.map(|name| unknown(name))
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
    let has = known.map(|(_, _, members)| has(members, member));
    member == "default" || has.unwrap_or_else(|| instead(module).is_none())
}

fn has(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|one| one == name)
}

/// What to do instead of a module that k6 has and this engine has not; `None` if it is none of those.
pub(super) fn instead(module: &str) -> Option<&'static str> {
    let known = MISSING_MODULES.iter().find(|(name, _)| *name == module);
    let known = known.map(|(_, instead)| *instead);
    known.or_else(|| module.starts_with("k6/x/").then_some(EXTENSION))
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

/// The virtual user of a script, unless it is in its init code: then this throws.
fn running_user(ctx: &Ctx<'_>, refused: &str) -> Result<Rc<User>> {
    let user = User::of(ctx);
    ensure(ctx, !user.is_initialising(), refused)?;
    Ok(user)
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
    if let Some(instead) = instead(name) {
        return ScriptError::Replaced { what: format!("module `{name}`"), instead };
    }
    let removed = REMOVED_MODULES.iter().find(|(known, _)| *known == name);
    ScriptError::Exception(match removed {
        Some((_, instead)) => format!("GoError: {name}: {instead}"),
        None => format!("GoError: unknown module: {name}"),
    })
}

/// Defines the globals of the engine.
pub(super) fn install_globals(ctx: &Ctx<'_>) -> Result<()> {
    open::install(ctx)?;
    web_crypto::install(ctx)?;
    text_coding::install(ctx)?;
    timers::install(&ctx.globals())
}
