//! The global `crypto` of browsers. The operations of `crypto.subtle` run on threads of their own, as in k6; their
//! promises are settled afterwards.

use rquickjs::function::{Constructor, This};
use rquickjs::object::{Accessor, Property};
use rquickjs::{
    Array, ArrayBuffer, Ctx, Exception, Function, IntoJs, Object, Result, TypedArray, Value,
};

use super::bytes::buffer_bytes;
use super::crypto::fill_random;
use super::define;
use crate::script::compiled;
use crate::script::tasks::{Settle, Tasks};
use crate::script::user::User;
use crate::web_crypto::{self, Arguments, CryptoResult, Hash};

const LIBRARY: &str = include_str!("subtle.js");

/// Limit of one call in bytes (Web Cryptography, §10.1.1).
const MAX_BYTES: usize = 65_536;

/// Views accepted by `getRandomValues`: those of whole numbers.
const INTEGER_VIEWS: &[&str] = &[
    "Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array",
    "Uint32Array", "BigInt64Array", "BigUint64Array",
];

pub(super) fn install(ctx: &Ctx<'_>) -> Result<()> {
    let crypto = Object::new(ctx.clone())?;
    define(&crypto, "getRandomValues", get_random_values)?;
    define(&crypto, "randomUUID", random_uuid)?;
    define_subtle(&crypto)?;
    ctx.globals().set("crypto", crypto)
}

/// `getRandomValues(view)` fills the view and returns it.
fn get_random_values<'js>(ctx: Ctx<'js>, view: Value<'js>) -> Result<Value<'js>> {
    let wrong = || Exception::throw_type(&ctx, "a typed array of integers is expected");
    let object = view.as_object().ok_or_else(wrong)?;
    let constructor: Object<'js> = object.get("constructor")?;
    let name: String = constructor.get("name")?;
    if !INTEGER_VIEWS.contains(&name.as_str()) {
        return Err(wrong());
    }
    let length: usize = object.get("byteLength")?;
    if length > MAX_BYTES {
        let message = format!("QuotaExceededError: at most {MAX_BYTES} bytes at a time");
        return Err(Exception::throw_message(&ctx, &message));
    }
    let mut bytes = vec![0; length];
    fill_random(&ctx, &mut bytes)?;
    // A view of the same buffer as bytes, filled by the engine itself.
    let bytes_type: Constructor<'js> = ctx.globals().get("Uint8Array")?;
    let (buffer, offset): (Value<'js>, usize) = (object.get("buffer")?, object.get("byteOffset")?);
    let window: Object<'js> = bytes_type.construct((buffer, offset, length))?;
    let set: Function<'js> = window.get("set")?;
    let filled = TypedArray::<u8>::new(ctx.clone(), bytes)?;
    set.call::<_, ()>((This(window), filled))?;
    Ok(view)
}

/// `randomUUID()`: version 4 (RFC 9562 §5.4).
fn random_uuid(ctx: Ctx<'_>) -> Result<String> {
    let mut bytes = [0; 16];
    fill_random(&ctx, &mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = format!("{:032x}", u128::from_be_bytes(bytes));
    for at in [20, 16, 12, 8] {
        text.insert(at, '-');
    }
    Ok(text)
}

/// Defines `subtle`, which is made when a script first reads it.
fn define_subtle<'js>(crypto: &Object<'js>) -> Result<()> {
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
