//! `k6/timers`, and the same functions as globals.

use std::time::Duration;

use rquickjs::function::{Opt, Rest};
use rquickjs::{Coerced, Ctx, Exception, Object, Result, Value};

use super::define;
use crate::script::user::User;

pub(super) const MEMBERS: &str = "clearInterval clearTimeout setInterval setTimeout";

pub(super) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    install(&object)?;
    Ok(object)
}

pub(super) fn install<'js>(object: &Object<'js>) -> Result<()> {
    for (name, repeat) in [("setTimeout", false), ("setInterval", true)] {
        let call = move |ctx: Ctx<'js>,
                         function: Value<'js>,
                         delay: Opt<Coerced<f64>>,
                         arguments: Rest<Value<'js>>|
              -> Result<u32> {
            let Some(function) = function.into_function() else {
                let message = format!("{name}'s callback isn't a callable function");
                return Err(Exception::throw_type(&ctx, &message));
            };
            // NaN and negative numbers do not wait. The loop's timers count in milliseconds: a shorter period would
            // only spin.
            let least = if repeat { 1.0 } else { 0.0 };
            let milliseconds = delay.0.map_or(0.0, |delay| delay.0).max(least);
            let delay = Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or(Duration::MAX);
            User::of(&ctx).tasks.start_timer(&ctx, function, arguments.0, delay, repeat)
        };
        define(object, name, call)?;
    }
    for name in ["clearTimeout", "clearInterval"] {
        define(object, name, |ctx: Ctx<'js>, number: Opt<Value<'js>>| {
            let number = number.0.as_ref().and_then(Value::as_number).unwrap_or(0.0);
            User::of(&ctx).tasks.stop_timer(&ctx, number as u32)
        })?;
    }
    Ok(())
}
