//! `crypto.subtle`: operations run on threads of their own, as in k6; their promises are settled afterwards.

use rquickjs::object::{Accessor, Property};
use rquickjs::{Array, ArrayBuffer, Ctx, Exception, Function, IntoJs, Object, Result, Value};

use super::bytes::buffer_bytes;
use crate::script::compiled;
use crate::script::tasks::{Settle, Tasks};
use crate::script::user::User;
use crate::web_crypto::{self, Arguments, CryptoResult, Hash};

const LIBRARY: &str = include_str!("subtle.js");

/// Defines `subtle`, which is made when a script first reads it.
pub(super) fn define<'js>(crypto: &Object<'js>) -> Result<()> {
    let get = |ctx: Ctx<'js>| -> Result<Value<'js>> {
        let make: Function<'js> = compiled::library(&ctx, "subtle.js", LIBRARY)?;
        let subtle: Value<'js> = make.call((Function::new(ctx.clone(), run)?,))?;
        let crypto: Object<'js> = ctx.globals().get("crypto")?;
        crypto.prop("subtle", Property::from(subtle.clone()).enumerable().configurable())?;
        Ok(subtle)
    };
    crypto.prop("subtle", Accessor::from(get).enumerable().configurable())
}

/// Returns a promise of the result of an operation: a list of buffers, or a boolean.
fn run<'js>(ctx: Ctx<'js>, operation: String, options: Object<'js>) -> Result<Value<'js>> {
    let arguments = arguments(&options)?;
    let user = User::of(&ctx);
    let work = tokio::task::spawn_blocking(move || web_crypto::run(&operation, &arguments));
    Tasks::start_work(&user, &ctx, async move {
        let done = work.await;
        let settle: Settle = Box::new(move |ctx| match done {
            Ok(Ok(outcome)) => value(ctx, outcome),
            Ok(Err(failure)) => Err(Exception::throw_message(ctx, &failure.to_string())),
            Err(_) => Err(Exception::throw_message(ctx, "the operation has failed")),
        });
        settle
    })
}

fn arguments(options: &Object<'_>) -> Result<Arguments> {
    let bytes = |name: &str| -> Result<Vec<u8>> {
        let buffer: Option<Object<'_>> = options.get(name)?;
        Ok(buffer.as_ref().and_then(buffer_bytes).unwrap_or_default())
    };
    let number = |name: &str| -> Result<usize> {
        // Other values and negative numbers count as 0.
        Ok(options.get::<_, Option<f64>>(name)?.unwrap_or_default() as usize)
    };
    let parts: Option<Array<'_>> = options.get("parts")?;
    let parts = parts.iter().flat_map(Array::iter::<Object<'_>>);
    Ok(Arguments {
        name: options.get::<_, Option<String>>("name")?.unwrap_or_default(),
        hash: options.get::<_, Option<String>>("hash")?.as_deref().and_then(Hash::named),
        key: bytes("key")?,
        data: bytes("data")?,
        other: bytes("other")?,
        extra: bytes("extra")?,
        parts: parts
            .map(|part| Ok(buffer_bytes(&part?).unwrap_or_default()))
            .collect::<Result<_>>()?,
        number: number("number")?,
        length: number("length")?,
    })
}

fn value<'js>(ctx: &Ctx<'js>, outcome: CryptoResult) -> Result<Value<'js>> {
    let buffers = match outcome {
        CryptoResult::Verified(is_so) => return is_so.into_js(ctx),
        CryptoResult::Bytes(buffers) => buffers,
    };
    let buffers = buffers.into_iter().map(|bytes| ArrayBuffer::new(ctx.clone(), bytes));
    buffers.collect::<Result<Vec<_>>>()?.into_js(ctx)
}
