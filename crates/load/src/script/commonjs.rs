//! CommonJS modules: files without `import`, `export` and top-level `await`, as in k6.

use rquickjs::function::This;
use rquickjs::object::Property;
use rquickjs::{Coerced, Ctx, Exception, Function, Module, Object, Result, Value};

use super::modules::{define, ensure};
use super::source::{self, Import, Source};
use super::user::User;
use super::{compiled, jslib, life, loader, modules};

/// Hidden global with the exports of a virtual user's CommonJS modules, by module name.
const LOADED: &str = "__commonjs__";

/// Defines `require()`.
pub(super) fn install<'js>(ctx: &Ctx<'js>) -> Result<()> {
    let globals = ctx.globals();
    globals.prop(LOADED, Property::from(Object::new(ctx.clone())?))?;
    let require = |ctx: Ctx<'js>, specifier: Coerced<String>| require(&ctx, &specifier.0);
    define(&globals, "require", require)
}

/// Runs the CommonJS module `name` and returns the text of an ES module that exports the same.
pub(super) fn as_module(ctx: &Ctx<'_>, name: &str, source: &Source) -> Result<String> {
    let exports = load(ctx, name, source)?;
    let quoted = serde_json::Value::from(name).to_string();
    let mut module = format!(
        "const m = globalThis.{LOADED}[{quoted}];\n\
         export default m.default === undefined ? m : m.default;\n"
    );
    for (at, key) in exports.keys::<String>().enumerate() {
        let key = key?;
        if key != "default" && source::is_identifier(&key) {
            module += &format!("const v{at} = m.{key}; export {{ v{at} as {key} }};\n");
        }
    }
    Ok(module)
}

/// Returns the exports of the CommonJS module `name`; runs it unless it has run.
fn load<'js>(ctx: &Ctx<'js>, name: &str, source: &Source) -> Result<Object<'js>> {
    let loaded: Object<'js> = ctx.globals().get(LOADED)?;
    if let Some(known) = loaded.get::<_, Option<Object<'js>>>(name)? {
        return Ok(known);
    }
    // As in k6, CommonJS is strict too.
    let wrapped = || format!("(function (module, exports) {{{}\n}})", source.text);
    let run: Function<'js> = compiled::script(ctx, name, wrapped, &source.compiled)?;
    let module = Object::new(ctx.clone())?;
    let exports = Object::new(ctx.clone())?;
    module.set("exports", exports.clone())?;
    // Modules that require each other see the exports made so far.
    loaded.set(name, exports.clone())?;
    let called: Result<Value<'js>> = run.call((This(exports.clone()), module.clone(), exports));
    if let Err(error) = called {
        loaded.remove(name)?;
        return Err(error);
    }
    let exported: Value<'js> = module.get("exports")?;
    let Some(exported) = exported.into_object() else {
        loaded.remove(name)?;
        let message = "CommonJS's exports must be an object or a function";
        return Err(Exception::throw_type(ctx, message));
    };
    loaded.set(name, exported.clone())?;
    Ok(exported)
}

fn require<'js>(ctx: &Ctx<'js>, specifier: &str) -> Result<Value<'js>> {
    let user = User::of(ctx);
    ensure(ctx, !specifier.is_empty(), "require() can't be used with an empty specifier")?;
    let message =
        "the \"require\" function is only available in the init stage (i.e. the global scope)";
    ensure(ctx, user.is_initialising(), message)?;
    let caller = caller(ctx).unwrap_or_else(|| source::module_name(&user.run.script));
    let import = source::resolve(&caller, specifier).map_err(|error| user.refuse(ctx, error))?;
    let name = import.name();
    if !matches!(import, Import::BuiltIn(_)) {
        let source = loader::read(ctx, &user, &name)?;
        if !source.syntax.is_module {
            return Ok(load(ctx, &name, &source)?.into_value());
        }
    } else if modules::instead(&name).is_some() {
        user.note_refusal(modules::unknown(&name));
    } else if !jslib::is_built_in(&name) && !modules::is_built_in(&name) {
        return Err(user.refuse(ctx, modules::unknown(&name)));
    }
    let promise = Module::import(ctx, name.as_str())?;
    life::settle(ctx, &user, &promise)?;
    match promise.result::<Value<'js>>() {
        // As in k6, which ignores their other exports.
        Some(Ok(namespace)) if modules::has_default(&name) => match namespace.as_object() {
            Some(object) => object.get("default"),
            None => Ok(namespace),
        },
        Some(namespace) => namespace,
        None => Err(Exception::throw_message(ctx, "a module that awaits cannot be required")),
    }
}

/// The module that calls the running native function.
pub(super) fn caller(ctx: &Ctx<'_>) -> Option<String> {
    // The native function may have a level of its own, depending on how it is called.
    (0..2).find_map(|level| {
        let name = ctx.script_or_module_name(level)?.to_string().ok()?;
        name.contains("://").then_some(name)
    })
}
