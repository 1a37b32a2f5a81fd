//! `k6/crypto`: hashes, keyed hashes, random bytes.

use std::cell::RefCell;

use base16ct::lower::encode_string as hex;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};
use hmac::HmacReset;
use hmac::digest::{Digest, DynDigest, KeyInit as _};
use rquickjs::class::Trace;
use rquickjs::function::{Opt, This};
use rquickjs::{
    ArrayBuffer, Class, Coerced, Ctx, Exception, IntoJs, JsLifetime, Object, Result, Value,
};

use super::bytes::bytes_of;
use super::define;

/// Most bytes of one `randomBytes`; a larger request is a mistake.
const MAX_RANDOM_BYTES: u32 = 16 * 1024 * 1024;

/// Calls `$then!(Type)` for the hash function called `$name`, or evaluates to `$otherwise`. The only list of hash
/// functions.
macro_rules! for_hash {
    ($name:expr, $then:ident, $otherwise:expr) => {
        match $name {
            "md4" => $then!(md4::Md4),
            "md5" => $then!(md5::Md5),
            "sha1" => $then!(sha1::Sha1),
            "sha256" => $then!(sha2::Sha256),
            "sha384" => $then!(sha2::Sha384),
            "sha512" => $then!(sha2::Sha512),
            "sha512_224" => $then!(sha2::Sha512_224),
            "sha512_256" => $then!(sha2::Sha512_256),
            "ripemd160" => $then!(ripemd::Ripemd160),
            _ => $otherwise,
        }
    };
}

pub(super) const MEMBERS: &str = "createHMAC createHash hexEncode hmac md4 md5 randomBytes \
        ripemd160 sha1 sha256 sha384 sha512 sha512_224 sha512_256";

pub(super) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    for name in MEMBERS.split(' ') {
        macro_rules! define {
            ($hash:ty) => {
                define(&object, name, hash::<$hash>)?
            };
        }
        for_hash!(name, define, ());
    }
    define(&object, "createHash", create_hash)?;
    define(&object, "createHMAC", create_hmac)?;
    define(&object, "hmac", hmac)?;
    define(&object, "hexEncode", hex_encode)?;
    define(&object, "randomBytes", random_bytes)?;
    Ok(object)
}

/// `sha256(input, encoding)` and its siblings.
fn hash<'js, H: Digest>(
    ctx: Ctx<'js>,
    input: Value<'js>,
    encoding: Opt<Value<'js>>,
) -> Result<Value<'js>> {
    // Strings are hashed in place: a proof of work hashes thousands of short ones.
    let digest = match input.as_string() {
        Some(text) => H::digest(text.clone().to_cstring()?.as_str()),
        None => H::digest(bytes_of(&ctx, &input)?),
    };
    encode(&ctx, &digest, encoding.0)
}

/// Bytes in the encoding the script asks for.
fn encode<'js>(ctx: &Ctx<'js>, bytes: &[u8], encoding: Option<Value<'js>>) -> Result<Value<'js>> {
    let name = match encoding.as_ref().and_then(Value::as_string) {
        Some(name) => name.clone().to_cstring()?,
        None => return Err(invalid_encoding(ctx, "")),
    };
    match name.as_str() {
        "hex" => hex(bytes).into_js(ctx),
        "base64" => BASE64_STANDARD.encode(bytes).into_js(ctx),
        "base64url" => BASE64_URL_SAFE.encode(bytes).into_js(ctx),
        "base64rawurl" => BASE64_URL_SAFE_NO_PAD.encode(bytes).into_js(ctx),
        "binary" => Ok(ArrayBuffer::new_copy(ctx.clone(), bytes)?.into_value()),
        other => Err(invalid_encoding(ctx, other)),
    }
}

fn invalid_encoding(ctx: &Ctx<'_>, name: &str) -> rquickjs::Error {
    Exception::throw_message(ctx, &format!("invalid output encoding: {name}"))
}

fn hex_encode<'js>(ctx: Ctx<'js>, input: Value<'js>) -> Result<String> {
    Ok(hex(&bytes_of(&ctx, &input)?))
}

fn random_bytes(ctx: Ctx<'_>, size: Coerced<f64>) -> Result<ArrayBuffer<'_>> {
    if !(size.0 >= 1.0 && size.0 <= f64::from(MAX_RANDOM_BYTES)) {
        return Err(Exception::throw_message(&ctx, "invalid size"));
    }
    let mut bytes = vec![0; size.0 as usize];
    fill_random(&ctx, &mut bytes)?;
    ArrayBuffer::new(ctx, bytes)
}

/// Fills `bytes` from the operating system's generator.
pub(super) fn fill_random(ctx: &Ctx<'_>, bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|error| Exception::throw_message(ctx, &error.to_string()))
}

/// Result of `createHash` and `createHMAC`.
#[derive(JsLifetime, Trace)]
struct Hasher(#[qjs(skip_trace)] RefCell<Box<dyn DynDigest>>);

script_class!(Hasher, "Hasher", |prototype| {
    define(prototype, "update", update)?;
    define(prototype, "digest", digest)
});

/// `update(input)`; may be chained.
fn update<'js>(
    ctx: Ctx<'js>,
    this: This<Class<'js, Hasher>>,
    input: Value<'js>,
) -> Result<Class<'js, Hasher>> {
    let bytes = bytes_of(&ctx, &input)?;
    this.0.borrow().0.borrow_mut().update(&bytes);
    Ok(this.0)
}

/// `digest(encoding)`: the hash of the input so far; more may follow.
fn digest<'js>(
    ctx: Ctx<'js>,
    this: This<Class<'js, Hasher>>,
    encoding: Opt<Value<'js>>,
) -> Result<Value<'js>> {
    let hash = this.0.borrow().0.borrow().box_clone();
    encode(&ctx, &hash.finalize(), encoding.0)
}

fn unknown_hash(ctx: &Ctx<'_>, name: &str) -> rquickjs::Error {
    Exception::throw_message(ctx, &format!("invalid algorithm: {name}"))
}

fn create_hash<'js>(ctx: Ctx<'js>, algorithm: Coerced<String>) -> Result<Class<'js, Hasher>> {
    macro_rules! boxed {
        ($hash:ty) => {
            Box::new(<$hash>::new()) as Box<dyn DynDigest>
        };
    }
    let name = algorithm.0.as_str();
    let hash = for_hash!(name, boxed, return Err(unknown_hash(&ctx, name)));
    Class::instance(ctx.clone(), Hasher(RefCell::new(hash)))
}

fn keyed(ctx: &Ctx<'_>, algorithm: &str, key: &[u8]) -> Result<Box<dyn DynDigest>> {
    macro_rules! boxed {
        ($hash:ty) => {
            Box::new(
                HmacReset::<$hash>::new_from_slice(key).expect("HMAC takes keys of any length"),
            ) as Box<dyn DynDigest>
        };
    }
    Ok(for_hash!(algorithm, boxed, return Err(unknown_hash(ctx, algorithm))))
}

fn create_hmac<'js>(
    ctx: Ctx<'js>,
    algorithm: Coerced<String>,
    key: Value<'js>,
) -> Result<Class<'js, Hasher>> {
    let hash = keyed(&ctx, &algorithm.0, &bytes_of(&ctx, &key)?)?;
    Class::instance(ctx.clone(), Hasher(RefCell::new(hash)))
}

/// `hmac(algorithm, key, data, encoding)`.
fn hmac<'js>(
    ctx: Ctx<'js>,
    algorithm: Coerced<String>,
    key: Value<'js>,
    data: Value<'js>,
    encoding: Opt<Value<'js>>,
) -> Result<Value<'js>> {
    let mut hash = keyed(&ctx, &algorithm.0, &bytes_of(&ctx, &key)?)?;
    hash.update(&bytes_of(&ctx, &data)?);
    encode(&ctx, &hash.finalize(), encoding.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_pairs_of_digits() {
        assert_eq!(hex(&[0, 15, 16, 255]), "000f10ff");
    }
}
