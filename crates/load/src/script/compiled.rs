//! Modules as QuickJS compiles them, shared by virtual users: a bundle of some hundred kilobytes takes as long to compile
//! as a hundred requests.

use rquickjs::module::{Declared, WriteOptions};
use rquickjs::{Ctx, Module, Result};

/// A module in the form of the QuickJS that is linked into this program.
#[derive(Debug)]
pub(crate) struct Compiled(Vec<u8>);

impl Compiled {
    /// `None` for what QuickJS cannot write.
    pub(super) fn of(module: &Module<'_, Declared>) -> Option<Self> {
        module.write(WriteOptions::default()).ok().map(Self)
    }

    /// Declares the module in another engine.
    #[expect(unsafe_code, reason = "QuickJS does not check what it reads")]
    pub(super) fn load<'js>(&self, ctx: &Ctx<'js>) -> Result<Module<'js, Declared>> {
        // SAFETY: only `of` makes these bytes: the same library has written them in the same process, and nothing has
        // changed them since.
        unsafe { Module::load(ctx.clone(), &self.0) }
    }
}
