//! Connects QuickJS's module system to [`source`](super::source) and the built-in modules.

use std::path::Path;
use std::rc::Rc;

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Module, Result};

use super::compiled::Compiled;
use super::source::{self, Source};
use super::syntax::Use;
use super::user::User;
use super::{commonjs, jslib, modules};
use crate::log::Level;

pub(super) struct ModuleLoader(pub(super) Rc<User>);

impl Resolver for ModuleLoader {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        let import = source::resolve(base, name).map_err(|error| self.0.refuse(ctx, error))?;
        Ok(import.name())
    }
}

impl Loader for ModuleLoader {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>> {
        if name.contains("://") && !jslib::is_built_in(name) {
            let message = "modules can only be imported in the init code";
            modules::ensure(ctx, self.0.is_initialising(), message)?;
            let source = read(ctx, &self.0, name)?;
            return match source.compiled.get() {
                Some(compiled) if source.syntax.is_module => compiled.load(ctx),
                _ => declare(ctx, name, &source),
            };
        }
        if modules::instead(name).is_some() {
            if !self.0.is_initialising() {
                return Err(self.0.refuse(ctx, modules::unknown(name)));
            }
            self.0.note_refusal(modules::unknown(name));
        }
        let absent = self.0.run.sources.absent_members(name);
        modules::declare(ctx, name, &absent)
            .unwrap_or_else(|| Err(self.0.refuse(ctx, modules::unknown(name))))
    }
}

/// Declares the module `name` from its text, and keeps an ES module as compiled.
pub(super) fn declare<'js>(
    ctx: &Ctx<'js>,
    name: &str,
    source: &Source,
) -> Result<Module<'js, Declared>> {
    if !source.syntax.is_module {
        return Module::declare(ctx.clone(), name, commonjs::as_module(ctx, name, source)?);
    }
    let module = Module::declare(ctx.clone(), name, &*source.text)?;
    if let Some(compiled) = Compiled::from_module(&module) {
        // Another virtual user may have been first.
        let _ = source.compiled.set(compiled);
    }
    Ok(module)
}

/// Reads the file or fetched module `name`. Refuses imports of missing modules.
pub(super) fn read(ctx: &Ctx<'_>, user: &User, name: &str) -> Result<Source> {
    let sources = &user.run.sources;
    let read = match name.strip_prefix("file://") {
        Some(path) => sources.read(Path::new(path)),
        None => sources.read_fetched(&user.run.script, name),
    };
    let source = read.map_err(|error| user.refuse(ctx, error))?;
    // Once is enough: all virtual users have the same text.
    if user.id == 0 {
        for name in source.syntax.specifiers.iter().filter(|name| modules::instead(name).is_some())
        {
            user.note_refusal(modules::unknown(name));
        }
        for Use { module, member, line } in modules::unknown_members(&source.syntax) {
            let message = format!("{name}, line {line}: `{module}` has no member `{member}`");
            user.run.log.write(Level::Warning, &message, &[]);
        }
    }
    Ok(source)
}
