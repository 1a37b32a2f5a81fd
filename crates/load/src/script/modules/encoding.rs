//! `k6/encoding`: base64.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use rquickjs::function::Opt;
use rquickjs::{ArrayBuffer, Coerced, Ctx, Exception, Object, Result, Value};

use super::bytes::bytes_of;
use super::{BuiltIn, define};
use crate::script::raw;

pub(super) struct Encoding;

impl BuiltIn for Encoding {
    const MEMBERS: &'static str = "b64decode b64encode";

    fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
        let object = Object::new(ctx.clone())?;
        define(&object, "b64encode", b64encode)?;
        define(&object, "b64decode", b64decode)?;
        Ok(object)
    }
}

/// By its name in k6; anything else is the standard one, as there.
fn engine(name: Option<&str>) -> GeneralPurpose {
    match name {
        Some("rawstd") => STANDARD_NO_PAD,
        Some("url") => URL_SAFE,
        Some("rawurl") => URL_SAFE_NO_PAD,
        _ => STANDARD,
    }
}

/// Reads what Go reads: bits of the last character that mean nothing need not be zero.
fn decoder(name: Option<&str>) -> GeneralPurpose {
    let alphabet = match name {
        Some("url" | "rawurl") => &base64::alphabet::URL_SAFE,
        _ => &base64::alphabet::STANDARD,
    };
    let padding = match name {
        Some("rawstd" | "rawurl") => base64::engine::DecodePaddingMode::RequireNone,
        _ => base64::engine::DecodePaddingMode::RequireCanonical,
    };
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(padding);
    GeneralPurpose::new(alphabet, config)
}

fn b64encode<'js>(
    ctx: Ctx<'js>,
    input: Value<'js>,
    encoding: Opt<Coerced<String>>,
) -> Result<String> {
    let bytes = bytes_of(&ctx, &input)?;
    Ok(engine(encoding.0.as_ref().map(|name| name.0.as_str())).encode(bytes))
}

/// `b64decode(input, encoding?, format?)`: an `ArrayBuffer`, with the format `s` a string.
fn b64decode<'js>(
    ctx: Ctx<'js>,
    input: Coerced<String>,
    encoding: Opt<Coerced<String>>,
    format: Opt<Coerced<String>>,
) -> Result<Value<'js>> {
    // Go skips line ends wherever they are.
    let input: String = input.0.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let decoder = decoder(encoding.0.as_ref().map(|name| name.0.as_str()));
    let bytes = decoder.decode(input).map_err(|error| {
        Exception::throw_message(&ctx, &format!("illegal base64 data: {error}"))
    })?;
    if format.0.is_some_and(|format| format.0 == "s") {
        return raw::text(&ctx, &bytes);
    }
    Ok(ArrayBuffer::new_copy(ctx, bytes)?.into_value())
}
