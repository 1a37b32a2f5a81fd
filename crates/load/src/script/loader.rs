//! Connects QuickJS's module system to [`source`](super::source) and the built-in modules.

use std::rc::Rc;

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Exception, Module, Result};

use super::modules;
use super::source::{self, Import};
use super::user::User;

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
            Ok(Import::BuiltIn(name)) => Ok(name),
            Ok(Import::File(path)) => Ok(source::module_name(&path)),
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
        if let Some(path) = name.strip_prefix("file://") {
            if !self.0.is_initialising() {
                return Err(Exception::throw_message(
                    ctx,
                    "modules can only be imported in the init code",
                ));
            }
            let text = match self.0.run.sources.read(std::path::Path::new(path)) {
                Ok(text) => text,
                Err(error) => return Err(self.0.refuse(ctx, error)),
            };
            if self.0.id == 0
                && let Err(error) = modules::refuse_missing_members(&text)
            {
                return Err(self.0.refuse(ctx, error));
            }
            return Module::declare(ctx.clone(), name, text.as_bytes());
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
