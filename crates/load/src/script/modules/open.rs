//! The global `open()`.

use std::path::Path;

use rquickjs::function::Opt;
use rquickjs::{ArrayBuffer, Coerced, Ctx, Exception, Function, Result, Value};

use crate::script::source::normalize;
use crate::script::user::User;
use crate::script::{commonjs, raw};

/// Defines the global.
pub(super) fn install(ctx: &Ctx<'_>) -> Result<()> {
    ctx.globals().set("open", Function::new(ctx.clone(), open)?.with_name("open")?)
}

/// `open(path, mode?)`: the text of a file, with the mode `b` an `ArrayBuffer`. The path starts at
/// the file that calls.
fn open<'js>(
    ctx: Ctx<'js>,
    path: Coerced<String>,
    mode: Opt<Coerced<String>>,
) -> Result<Value<'js>> {
    let user = User::of(&ctx);
    if !user.is_initialising() {
        let message = "the \"open\" function is only available in the init stage (i.e. the global \
                       scope), see https://grafana.com/docs/k6/latest/using-k6/test-lifecycle for \
                       more information";
        return Err(Exception::throw_message(&ctx, message));
    }
    if path.0.is_empty() {
        return Err(Exception::throw_message(&ctx, "open() can't be used with an empty filename"));
    }
    let caller = commonjs::caller(&ctx);
    let caller = caller.as_deref().and_then(|name| name.strip_prefix("file://"));
    let caller = caller.map_or(user.run.script.as_path(), Path::new);
    let given = path.0.strip_prefix("file://").unwrap_or(&path.0);
    let path = normalize(&caller.parent().unwrap_or(Path::new("/")).join(given));
    let content = user
        .run
        .files
        .open(&path, user.id == 0)
        .map_err(|error| Exception::throw_message(&ctx, &error.to_string()))?;
    if mode.0.is_some_and(|mode| mode.0.contains('b')) {
        return Ok(ArrayBuffer::new_copy(ctx, content)?.into_value());
    }
    raw::text(&ctx, &content)
}
