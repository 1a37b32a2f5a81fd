//! Rules and helpers for reading single fields.

use super::JsonObject;
use bytes::Bytes;
use serde::Deserialize;
use std::borrow::Cow;
use std::ops::RangeInclusive;
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// A password or token. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(super) String);

impl Secret {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret(text)
    }
}

crate::opaque_debug!(Secret);

impl JsonObject {
    /// True if there is a field of this name that is not null.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The JSON text of an array.
    pub(crate) fn array(&mut self, name: &'static str) -> Option<Bytes> {
        // Not `find`, which would check the UTF-8 of a whole upload again.
        let field = self.fields.iter().find(|field| *field.name == *name);
        let read = field.map(|field| self.bytes.slice(field.start..field.end));
        let read = read.filter(|raw| raw.starts_with(b"["));
        self.noted(name, read, || "an array".to_owned())
    }

    /// Notes what would have been accepted, unless something was read.
    pub(super) fn noted<T>(
        &mut self,
        name: &'static str,
        read: Option<T>,
        accepts: impl FnOnce() -> String,
    ) -> Option<T> {
        if read.is_none() {
            let accepts = accepts();
            let missing = !self.has(name);
            self.refuse(name, if missing { format!("required: {accepts}") } else { accepts });
        }
        read
    }

    /// The JSON text of a field, unless it is null.
    pub(super) fn find(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|field| *field.name == *name)?;
        let raw = self.bytes.get(field.start..field.end)?;
        std::str::from_utf8(raw).ok().filter(|raw| *raw != "null")
    }

    /// The decoded text of a field that is a string.
    pub(super) fn string(&self, name: &str) -> Option<Cow<'_, str>> {
        let raw = self.find(name)?;
        let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
        if inner.contains('\\') {
            String::deserialize(&mut serde_json::Deserializer::from_str(raw)).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(inner))
        }
    }
}

/// A text accepted by [`Line`](super::table::Line) from elsewhere, such as a query.
pub(crate) fn one_line(text: &str, chars: RangeInclusive<usize>) -> Option<String> {
    line(Cow::Borrowed(text), &chars)
}

/// The message for a text that [`one_line`] rejects.
pub(crate) fn what_a_line_is(chars: &RangeInclusive<usize>) -> String {
    format!("a text of {} characters in one line", span(chars))
}

pub(super) fn line(text: Cow<'_, str>, chars: &RangeInclusive<usize>) -> Option<String> {
    let bad = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || misleads(c);
    if text.contains(bad) { None } else { sized(text, chars) }
}

/// The message for a line in which a character [misleads](misleads).
pub(super) const NOT_MISLEADING: &str = "a text without controls of direction (U+202A to U+202E, U+2066 to \
    U+2069) and fillers (U+115F, U+1160, U+3164, U+FFA0)";

/// True if a character makes a line look like another, or like nothing: embeddings, overrides and isolates, which
/// reorder the text around them and, left open, the text that a page shows behind the line; and the invisible fillers
/// of Hangul. Balance is not checked: readers cannot see it either. Right-to-left letters need none of them.
pub(super) fn misleads(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}')
}

pub(super) fn many_lines(text: Cow<'_, str>, chars: &RangeInclusive<usize>) -> Option<String> {
    let text = if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n")) } else { text };
    let bad = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(bad) { None } else { sized(text, chars) }
}

/// The message for a text that [forces a direction](forces_direction).
pub(super) const UNFORCED: &str = "a text without the overrides of direction U+202D and U+202E";

/// U+202D and U+202E make letters run against their own direction. No language needs them, and they can make a price
/// or a name look like another. In texts of many lines the marks, embeddings and isolates of right-to-left text are
/// allowed: they end with their paragraph. Lines are [stricter](misleads).
pub(super) fn forces_direction(text: &str) -> bool {
    text.contains(['\u{202d}', '\u{202e}'])
}

/// The text in normal form C, if it has this many characters, and a visible one unless it may be empty.
fn sized(text: Cow<'_, str>, chars: &RangeInclusive<usize>) -> Option<String> {
    // Composing leaves at least a third of the bytes (9 bytes of Hangul become 3), and a character has at most 4.
    if text.len() > chars.end().saturating_mul(12) || forces_direction(&text) {
        return None;
    }
    let text = composed(text);
    let visible = *chars.start() == 0 || text.contains(is_visible);
    (visible && chars.contains(&text.chars().count())).then(|| text.into_owned())
}

/// True if a character that stands alone is visible: no white space, no control, not default-ignorable
/// (DerivedCoreProperties.txt of Unicode 16.0: fillers of Hangul, joiners, direction marks, variation selectors,
/// tags), no annotation mark, and not the blank Braille cell. Beside a visible one they are all allowed: joiners of
/// an emoji and marks of right-to-left text have a meaning there.
fn is_visible(c: char) -> bool {
    let ignorable = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}');
    let blank = matches!(c, '\u{2800}' | '\u{fff9}'..='\u{fffb}');
    !(ignorable || blank || c.is_whitespace() || c.is_control())
}

pub(super) fn composed(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc(&text) { text } else { Cow::Owned(text.nfc().collect()) }
}

pub(super) fn whole(raw: &str) -> Option<i64> {
    /// Below this, every whole number has its own double.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    raw.parse().ok().or_else(|| {
        let number = number(raw)?;
        #[allow(clippy::cast_possible_truncation, reason = "whole and within 53 bits")]
        (number.fract() == 0.0 && number.abs() < EXACT).then_some(number as i64)
    })
}

pub(super) fn number(raw: &str) -> Option<f64> {
    let is_number = raw.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    if is_number { raw.parse().ok().filter(|n: &f64| n.is_finite()) } else { None }
}

pub(super) fn span(range: &RangeInclusive<usize>) -> String {
    match (range.start(), range.end()) {
        (from, to) if from == to => from.to_string(),
        (0, to) => format!("up to {to}"),
        (from, to) => format!("{from} to {to}"),
    }
}

/// Results of reading several fields.
pub(crate) trait AllRead {
    type Read;

    /// All values, if each was read.
    fn all_read(self) -> Option<Self::Read>;
}

impl AllRead for () {
    type Read = ();

    fn all_read(self) -> Option<()> {
        Some(())
    }
}

impl<T> AllRead for Option<T> {
    type Read = T;

    fn all_read(self) -> Option<T> {
        self
    }
}

/// Implements the trait for tuples of up to this many options.
macro_rules! all_read {
    () => {};
    ($first:ident $($name:ident)*) => {
        impl<$first, $($name),*> AllRead for (Option<$first>, $(Option<$name>,)*) {
            type Read = ($first, $($name,)*);

            #[allow(non_snake_case, reason = "types and values share their names")]
            fn all_read(self) -> Option<Self::Read> {
                let ($first, $($name,)*) = self;
                Some(($first?, $($name?,)*))
            }
        }
        all_read!($($name)*);
    };
}
all_read!(A B C D E F G H I J);

#[cfg(test)]
mod tests;
