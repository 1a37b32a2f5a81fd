//! `k6/secrets`.

use rquickjs::{Coerced, Ctx, Exception, Object, Promise, Result};

use super::define;
use crate::script::user::User;
use crate::secrets::DEFAULT;

pub(super) const MEMBERS: &str = "";

pub(super) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let object = source(ctx.clone(), Coerced(DEFAULT.to_owned()))?;
    define(&object, "source", source)?;
    Ok(object)
}

/// `source(name)`: an object whose `get(name)` returns a promise of a value.
fn source<'js>(ctx: Ctx<'js>, source: Coerced<String>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    let get = move |ctx: Ctx<'js>, name: Coerced<String>| get(&ctx, &source.0, &name.0);
    define(&object, "get", get)?;
    Ok(object)
}

fn get<'js>(ctx: &Ctx<'js>, source: &str, name: &str) -> Result<Promise<'js>> {
    let user = User::of(ctx);
    let (promise, resolve, reject) = ctx.promise()?;
    match user.run.secrets.get(source, name) {
        Ok(value) => {
            user.run.log.hide(value);
            resolve.call::<_, ()>((value,))?;
        }
        Err(problem) => {
            let exception = Exception::from_message(ctx.clone(), &problem.to_string())?;
            reject.call::<_, ()>((exception,))?;
        }
    }
    Ok(promise)
}
