//! The global `open()`.

use std::path::Path;

use rquickjs::function::Opt;
use rquickjs::{ArrayBuffer, Coerced, Ctx, Result, Value};

use super::files::{beside, content};
use super::{define, ensure};
use crate::script::user::User;
use crate::script::{commonjs, raw};

pub(super) fn install(ctx: &Ctx<'_>) -> Result<()> {
    define(&ctx.globals(), "open", open)
}

/// `open(path, mode?)`: the text of a file, or an `ArrayBuffer` with the mode `b`. The path is relative to the calling file.
fn open<'js>(
    ctx: Ctx<'js>,
    path: Coerced<String>,
    mode: Opt<Coerced<String>>,
) -> Result<Value<'js>> {
    let user = User::of(&ctx);
    let message = "the \"open\" function is only available in the init stage (i.e. the global \
                       scope), see https://grafana.com/docs/k6/latest/using-k6/test-lifecycle for \
                       more information";
    ensure(&ctx, user.is_initialising(), message)?;
    ensure(&ctx, !path.0.is_empty(), "open() can't be used with an empty filename")?;
    let caller = commonjs::caller(&ctx);
    let caller = caller.as_deref().and_then(|name| name.strip_prefix("file://"));
    let caller = caller.map_or(user.run.script.as_path(), Path::new);
    let content = content(&ctx, &beside(caller, &path.0))?;
    if mode.0.is_some_and(|mode| mode.0.contains('b')) {
        return Ok(ArrayBuffer::new_copy(ctx, content)?.into_value());
    }
    raw::text(&ctx, &content)
}
