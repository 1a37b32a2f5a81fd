//! Connects QuickJS's module system to [`source`](super::source) and the built-in modules.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Exception, Module, Result};

use super::modules;
use super::user::User;
use super::{commonjs, jslib, source};

/// Resolves and loads the modules of one virtual user.
pub(super) struct ModuleLoader(pub(super) Rc<User>);

impl Resolver for ModuleLoader {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        match source::resolve(base, name) {
            Ok(import) => Ok(import.name()),
            Err(error) => Err(self.0.refuse(ctx, error)),
        }
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
            if !self.0.is_initialising() {
                return Err(Exception::throw_message(
                    ctx,
                    "modules can only be imported in the init code",
                ));
            }
            let text = text(ctx, &self.0, name)?;
            return declare(ctx, name, &text);
        }
        match modules::declare(ctx, name) {
            Some(module) => module,
            None => {
                let error = modules::unknown(name);
                Err(self.0.refuse(ctx, error))
            }
        }
    }
}

/// Declares the module `name` with this text, whichever kind it is of.
pub(super) fn declare<'js>(
    ctx: &Ctx<'js>,
    name: &str,
    text: &str,
) -> Result<Module<'js, Declared>> {
    let module = commonjs::as_module(ctx, name, text)?;
    Module::declare(ctx.clone(), name, module.as_deref().unwrap_or(text))
}

/// The text of the file or fetched module `name`. Refuses what uses something that is missing.
pub(super) fn text(ctx: &Ctx<'_>, user: &User, name: &str) -> Result<Arc<str>> {
    let sources = &user.run.sources;
    let read = match name.strip_prefix("file://") {
        Some(path) => sources.read(Path::new(path)),
        None => sources.read_fetched(&user.run.script, name),
    };
    let text = match read {
        Ok(text) => text,
        Err(error) => return Err(user.refuse(ctx, error)),
    };
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.into(),
        None => text,
    };
    // Once is enough: virtual users have the same text.
    if user.id == 0
        && let Err(error) = modules::refuse_missing_members(&text)
    {
        return Err(user.refuse(ctx, error));
    }
    Ok(text)
}
