//! `k6/secrets`.

use rquickjs::{Coerced, Ctx, Exception, Function, Object, Promise, Result};

use super::BuiltIn;
use crate::script::user::User;
use crate::secrets::DEFAULT;

/// The module `k6/secrets`.
pub(super) struct Secrets;

impl BuiltIn for Secrets {
    const MEMBERS: &'static [&'static str] = &[];

    fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
        let object = source(ctx.clone(), Coerced(DEFAULT.to_owned()))?;
        object.set("source", Function::new(ctx.clone(), source)?.with_name("source")?)?;
        Ok(object)
    }
}

/// `source(name)`: an object whose `get(name)` gives a promise of a value.
fn source<'js>(ctx: Ctx<'js>, source: Coerced<String>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    let get = move |ctx: Ctx<'js>, name: Coerced<String>| get(&ctx, &source.0, &name.0);
    object.set("get", Function::new(ctx, get)?.with_name("get")?)?;
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
