//! `k6/encoding`: base64.

use base64::Engine as _;
use base64::alphabet::{self, Alphabet};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use rquickjs::function::Opt;
use rquickjs::{ArrayBuffer, Coerced, Ctx, Exception, Object, Result, Value};

use super::bytes::bytes_of;
use super::define;
use crate::script::raw;

pub(super) const MEMBERS: &str = "b64decode b64encode";

pub(super) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    define(&object, "b64encode", b64encode)?;
    define(&object, "b64decode", b64decode)?;
    Ok(object)
}

static STANDARD: GeneralPurpose = engine(&alphabet::STANDARD, true);
static STANDARD_UNPADDED: GeneralPurpose = engine(&alphabet::STANDARD, false);
static URL_SAFE: GeneralPurpose = engine(&alphabet::URL_SAFE, true);
static URL_SAFE_UNPADDED: GeneralPurpose = engine(&alphabet::URL_SAFE, false);

const fn engine(alphabet: &Alphabet, padded: bool) -> GeneralPurpose {
    let padding =
        if padded { DecodePaddingMode::RequireCanonical } else { DecodePaddingMode::RequireNone };
    let config = GeneralPurposeConfig::new()
        .with_encode_padding(padded)
        .with_decode_padding_mode(padding)
        // As in Go, the unused bits of the last character need not be zero.
        .with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(alphabet, config)
}

/// The engine of k6's name; as in k6, any other name is the standard one.
fn named(encoding: Option<&Coerced<String>>) -> &'static GeneralPurpose {
    match encoding.map(|name| name.0.as_str()) {
        Some("rawstd") => &STANDARD_UNPADDED,
        Some("url") => &URL_SAFE,
        Some("rawurl") => &URL_SAFE_UNPADDED,
        _ => &STANDARD,
    }
}

fn b64encode<'js>(
    ctx: Ctx<'js>,
    input: Value<'js>,
    encoding: Opt<Coerced<String>>,
) -> Result<String> {
    let bytes = bytes_of(&ctx, &input)?;
    Ok(named(encoding.0.as_ref()).encode(bytes))
}

/// `b64decode(input, encoding?, format?)`: an `ArrayBuffer`, or a string with the format `s`.
fn b64decode<'js>(
    ctx: Ctx<'js>,
    input: Coerced<String>,
    encoding: Opt<Coerced<String>>,
    format: Opt<Coerced<String>>,
) -> Result<Value<'js>> {
    // As in Go, line ends are skipped wherever they are.
    let input: String = input.0.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = named(encoding.0.as_ref()).decode(input).map_err(|error| {
        Exception::throw_message(&ctx, &format!("illegal base64 data: {error}"))
    })?;
    if format.0.is_some_and(|format| format.0 == "s") {
        return raw::text(&ctx, &bytes);
    }
    Ok(ArrayBuffer::new_copy(ctx, bytes)?.into_value())
}
