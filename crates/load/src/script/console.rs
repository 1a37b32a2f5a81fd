//! `console`.

use rquickjs::function::Rest;
use rquickjs::{Ctx, Function, Object, Result, Value};

use super::error::to_text;
use super::user::User;
use crate::log::Level;

/// Defines the global `console`.
pub(super) fn install(ctx: &Ctx<'_>) -> Result<()> {
    let console = Object::new(ctx.clone())?;
    for (name, level) in [
        ("log", Level::Info),
        ("info", Level::Info),
        ("debug", Level::Debug),
        ("warn", Level::Warning),
        ("error", Level::Error),
    ] {
        let function = Function::new(ctx.clone(), move |ctx: Ctx<'_>, values: Rest<Value<'_>>| {
            write(&ctx, level, &values.0);
        })?;
        console.set(name, function.with_name(name)?)?;
    }
    ctx.globals().set("console", console)
}

fn write(ctx: &Ctx<'_>, level: Level, values: &[Value<'_>]) {
    // Messages of level debug are for `--verbose`, which is not there.
    if level == Level::Debug {
        return;
    }
    let text: Vec<String> = values.iter().map(to_text).collect();
    User::of(ctx).run.log.write(level, &text.join(" "), &[("source", "console")]);
}
