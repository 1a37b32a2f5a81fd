//! `k6/data`: `SharedArray`.
//!
//! The array is kept once per process, each element as JSON. Reading an element parses it afresh, as in k6: that
//! makes it safe to share between virtual users, each of which has a script engine of its own.

use std::sync::Arc;

use rquickjs::function::Opt;
use rquickjs::{Array, Coerced, Ctx, Exception, Function, Object, Result, Value};

use super::ensure;
use crate::script::compiled;
use crate::script::user::User;

/// Makes an array of a length and a function that returns elements: reading calls the function, every change throws.
/// The target of the proxy is an array, so that `Array.isArray`, `JSON.stringify`, spreading and all methods work.
const WRAP: &str = include_str!("shared_array.js");

pub(super) const MEMBERS: &str = "SharedArray";

pub(super) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    let constructor = Function::new(ctx.clone(), construct)?.with_name("SharedArray")?;
    constructor.set_constructor(true);
    object.set("SharedArray", constructor)?;
    Ok(object)
}

fn construct<'js>(
    ctx: Ctx<'js>,
    name: Coerced<String>,
    function: Opt<Value<'js>>,
) -> Result<Value<'js>> {
    let (user, name) = (User::of(&ctx), name.0);
    let message = "new SharedArray must be called in the init context";
    ensure(&ctx, user.is_initialising(), message)?;
    ensure(&ctx, !name.is_empty(), "empty name provided to SharedArray's constructor")?;
    let Some(function) = function.0.as_ref().and_then(Value::as_function) else {
        let message = "a function is expected as the second argument of SharedArray's constructor";
        return Err(Exception::throw_message(&ctx, message));
    };
    let elements = user.run.shared.get_or_make(&name, || elements_of(&ctx, function))?;
    shared(&ctx, elements)
}

/// A script array whose elements are kept as JSON for all virtual users.
pub(super) fn shared<'js>(ctx: &Ctx<'js>, elements: Arc<Vec<Box<str>>>) -> Result<Value<'js>> {
    let length = elements.len();
    let element = move |ctx: Ctx<'js>, index: usize| -> Result<Value<'js>> {
        match elements.get(index) {
            Some(json) => ctx.json_parse(json.as_bytes()),
            None => Ok(Value::new_undefined(ctx)),
        }
    };
    // Evaluated anew: a native function that keeps a script value keeps its context alive.
    let wrap: Function<'js> = compiled::library(ctx, "shared_array.js", WRAP)?;
    wrap.call((length, Function::new(ctx.clone(), element)?))
}

/// Calls the script's function; returns the elements of the result as JSON.
fn elements_of<'js>(ctx: &Ctx<'js>, function: &Function<'js>) -> Result<Vec<Box<str>>> {
    let value: Value<'js> = function.call(())?;
    let wrong = "only arrays can be made into SharedArray";
    if value.is_promise() {
        let message = "SharedArray constructor does not support async functions as second argument";
        return Err(Exception::throw_type(ctx, message));
    }
    let array: &Array<'js> =
        value.as_array().ok_or_else(|| Exception::throw_message(ctx, wrong))?;
    let json = |element: Result<Value<'js>>| -> Result<Box<str>> {
        match ctx.json_stringify(element?)? {
            Some(text) => Ok(text.to_string()?.into()),
            None => Ok("null".into()),
        }
    };
    array.iter::<Value<'js>>().map(json).collect()
}
