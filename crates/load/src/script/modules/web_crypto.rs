//! The global `crypto` of browsers.

use rquickjs::{Ctx, Exception, Function, Object, Result, TypedArray, Value};

use super::crypto::fill_random;
use super::{define, subtle};

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
    subtle::define(&crypto)?;
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
    let bytes_type: rquickjs::function::Constructor<'js> = ctx.globals().get("Uint8Array")?;
    let (buffer, offset): (Value<'js>, usize) = (object.get("buffer")?, object.get("byteOffset")?);
    let window: Object<'js> = bytes_type.construct((buffer, offset, length))?;
    let set: Function<'js> = window.get("set")?;
    let filled = TypedArray::<u8>::new(ctx.clone(), bytes)?;
    set.call::<_, ()>((rquickjs::function::This(window), filled))?;
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
