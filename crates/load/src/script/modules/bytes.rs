//! Bytes from scripts: strings, `ArrayBuffer`s and views of them.

use rquickjs::{Ctx, Exception, Object, Result, Value};

/// The bytes of a string (as UTF-8), an `ArrayBuffer` or a view; throws for any other value.
pub(super) fn bytes_of<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Result<Vec<u8>> {
    let message = "a string, an ArrayBuffer or a typed array is expected";
    text_or_bytes(value)?.ok_or_else(|| Exception::throw_type(ctx, message))
}

/// The bytes of a string or buffer; `None` for any other value.
pub(in crate::script) fn text_or_bytes(value: &Value<'_>) -> Result<Option<Vec<u8>>> {
    match value.as_string() {
        Some(text) => Ok(Some(text.clone().to_cstring()?.as_str().as_bytes().to_vec())),
        None => Ok(value.as_object().and_then(buffer_bytes)),
    }
}

/// The bytes of an `ArrayBuffer`, `Uint8Array` or other view; `None` for other objects.
pub(super) fn buffer_bytes(object: &Object<'_>) -> Option<Vec<u8>> {
    if object.as_array_buffer().is_some() {
        return copy(object, 0, None);
    }
    let buffer: Object<'_> = object.get("buffer").ok()?;
    let (offset, length) = (object.get("byteOffset").ok()?, object.get("byteLength").ok()?);
    copy(&buffer, offset, Some(length))
}

/// Copies a part of a buffer. Element by element, this would take 50 ns a byte.
fn copy(buffer: &Object<'_>, offset: usize, length: Option<usize>) -> Option<Vec<u8>> {
    let buffer = buffer.as_array_buffer()?;
    let bytes = buffer.as_bytes()?;
    let end = length.map_or(Some(bytes.len()), |length| offset.checked_add(length))?;
    bytes.get(offset..end).map(<[u8]>::to_vec)
}
