//! Reading fields: each reader says what it accepts, in the same words for every body.

use super::JsonObject;
use crate::http::rfc3339;
use bytes::Bytes;
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt;
use std::ops::{Bound, RangeBounds, RangeInclusive};
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// A text that is not printed: a password or a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret(text)
    }
}

crate::opaque_debug!(Secret);

/// A reader takes a field; a missing one, or null, is wrong as well.
impl JsonObject {
    /// Whether there is a field of this name that is not null.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// A text of one line: no control characters, no line breaks, no marks that force or isolate a
    /// direction, no fillers, something visible in it unless it may be empty. So many characters
    /// (Unicode scalar values), counted in the normal form C that is answered, so that Hangul counts and
    /// compares alike however its keyboard composes it.
    pub fn text(&mut self, name: &'static str, chars: RangeInclusive<usize>) -> Option<String> {
        let text = self.string(name);
        let misleads = text.as_deref().is_some_and(|text| text.contains(misleads));
        let read = text.and_then(|text| line(text, &chars));
        self.noted(name, read, || match misleads {
            true => NOT_MISLEADING.to_owned(),
            false => what_a_line_is(&chars),
        })
    }

    /// A text of any number of lines, as [`text`](Self::text) otherwise; tabs are fine, and line ends
    /// become `\n`.
    pub fn lines(&mut self, name: &'static str, chars: RangeInclusive<usize>) -> Option<String> {
        let text = self.string(name);
        let forced = text.as_deref().is_some_and(forces_direction);
        let read = text.and_then(|text| many_lines(text, &chars));
        self.noted(name, read, || match forced {
            true => UNFORCED.to_owned(),
            false => format!("a text of {} characters", span(&chars)),
        })
    }

    /// A password: so many **bytes** of UTF-8 in normal form C (as RFC 8265, 4.2.2 has it, for the same
    /// password typed on another keyboard must be the same), without control characters.
    pub fn secret(&mut self, name: &'static str, bytes: RangeInclusive<usize>) -> Option<Secret> {
        let read = self.string(name).and_then(|text| {
            // Composing leaves at least a third of the bytes.
            let may_fit = text.len() / 3 <= *bytes.end();
            let text = may_fit.then(|| composed(text))?;
            let fits = bytes.contains(&text.len()) && !text.contains(char::is_control);
            fits.then(|| Secret(text.into_owned()))
        });
        self.noted(name, read, || {
            format!("a text of {} bytes without control characters", span(&bytes))
        })
    }

    /// A password to be compared with one of at most `most` bytes: as [`secret`](Self::secret), of any
    /// length; `Some(None)` for a text so long that its normal form has more. It cannot be the right one,
    /// and composing it would take as long as it is.
    pub fn secret_within(&mut self, name: &'static str, most: usize) -> Option<Option<Secret>> {
        if self.string(name).is_some_and(|text| text.len() / 3 > most) {
            return Some(None);
        }
        self.secret(name, 0..=super::LARGEST_OBJECT).map(Some)
    }

    /// A whole number. `2.0` and `2e0` are the number 2 as well: JSON knows one kind of number.
    pub fn whole(&mut self, name: &'static str, range: impl RangeBounds<i64>) -> Option<i64> {
        let read = self.find(name).and_then(whole).filter(|n| range.contains(n));
        self.noted(name, read, || format!("a whole number{}", between(&range)))
    }

    /// A number.
    pub fn number(&mut self, name: &'static str, range: impl RangeBounds<f64>) -> Option<f64> {
        let read = self.find(name).and_then(number).filter(|n| range.contains(n));
        self.noted(name, read, || format!("a number{}", between(&range)))
    }

    /// A moment, in milliseconds since 1970, from an RFC 3339 time with any offset: see
    /// [`rfc3339::parse`].
    pub fn time(&mut self, name: &'static str) -> Option<i64> {
        let read = self.string(name).and_then(|text| rfc3339::parse(&text));
        self.noted(name, read, || {
            "a time with its offset, such as 2026-11-20T18:30:00+09:00, from 1970 to 9999"
                .to_owned()
        })
    }

    /// One of these words.
    pub fn choice<T: Clone>(&mut self, name: &'static str, words: &[(&str, T)]) -> Option<T> {
        let read = self
            .string(name)
            .and_then(|text| words.iter().find(|(word, _)| *word == text).map(|(_, v)| v.clone()));
        self.noted(name, read, || {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            format!("one of {}", words.join(", "))
        })
    }

    /// An array, as its JSON text, for a reader that streams it.
    pub fn array(&mut self, name: &'static str) -> Option<Bytes> {
        let read = self.field(name).filter(|raw| raw.starts_with(b"["));
        self.noted(name, read, || "an array".to_owned())
    }

    /// Notes what would have been accepted, unless something was read.
    fn noted<T>(
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

    fn field(&self, name: &str) -> Option<Bytes> {
        let field = self.fields.iter().find(|field| *field.name == *name)?;
        Some(self.bytes.slice(field.start..field.end))
    }

    /// The text of a field's value, unless it is null.
    fn find(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|field| *field.name == *name)?;
        let raw = self.bytes.get(field.start..field.end)?;
        std::str::from_utf8(raw).ok().filter(|raw| *raw != "null")
    }

    /// A field that is a string, decoded.
    fn string(&self, name: &str) -> Option<Cow<'_, str>> {
        let raw = self.find(name)?;
        let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
        if inner.contains('\\') {
            String::deserialize(&mut serde_json::Deserializer::from_str(raw)).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(inner))
        }
    }
}

/// What [`JsonObject::text`] accepts, of a text from elsewhere, such as a query.
pub fn one_line(text: &str, chars: RangeInclusive<usize>) -> Option<String> {
    line(Cow::Borrowed(text), &chars)
}

/// What is said of a text that [`one_line`] does not accept.
pub fn what_a_line_is(chars: &RangeInclusive<usize>) -> String {
    format!("a text of {} characters in one line", span(chars))
}

fn line(text: Cow<'_, str>, chars: &RangeInclusive<usize>) -> Option<String> {
    let bad = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || misleads(c);
    if text.contains(bad) { None } else { sized(text, chars) }
}

/// What is said of a line in which something [misleads](misleads).
const NOT_MISLEADING: &str = "a text without controls of direction (U+202A to U+202E, U+2066 to \
    U+2069) and fillers (U+115F, U+1160, U+3164, U+FFA0)";

/// Whether a character makes a line look like another, or like nothing: embeddings, overrides and
/// isolates, which reorder what stands around them and, left open, what a list or a page puts behind the
/// line; and the fillers of Hangul, which cannot be seen. Whether they are balanced is not looked at:
/// nobody can see that either. Letters that run from right to left need none of them.
fn misleads(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}')
}

fn many_lines(text: Cow<'_, str>, chars: &RangeInclusive<usize>) -> Option<String> {
    let text = if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n")) } else { text };
    let bad = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(bad) { None } else { sized(text, chars) }
}

/// What is said of a text that [forces a direction](forces_direction).
const UNFORCED: &str = "a text without the overrides of direction U+202D and U+202E";

/// U+202D and U+202E make letters run against their own direction. No language needs them, and a price or a
/// name can be made to look like another. In texts of many lines the marks, embeddings and isolates of
/// right-to-left text are fine: they end with their paragraph. Lines are [stricter](misleads).
fn forces_direction(text: &str) -> bool {
    text.contains(['\u{202d}', '\u{202e}'])
}

/// The text in normal form C, if it has so many characters, and a visible one unless it may be empty.
fn sized(text: Cow<'_, str>, chars: &RangeInclusive<usize>) -> Option<String> {
    // Composing leaves at least a third of the bytes (a syllable of Hangul: 9 become 3), and a
    // character has at most 4: what is longer need not be looked at.
    if text.len() > chars.end().saturating_mul(12) || forces_direction(&text) {
        return None;
    }
    let text = composed(text);
    let visible = *chars.start() == 0 || text.contains(is_visible);
    (visible && chars.contains(&text.chars().count())).then(|| text.into_owned())
}

/// Whether there is something to see of a character that stands alone: no white space, no control, none
/// that Unicode calls default-ignorable (DerivedCoreProperties.txt of Unicode 16.0: fillers of Hangul,
/// joiners, marks of direction, selectors of variants, tags), no mark of an annotation, and not the
/// Braille cell without dots. Beside one that can be seen they all stay allowed: the joiners of an emoji
/// and the marks of a text that runs from right to left have a meaning there.
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

fn composed(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc(&text) { text } else { Cow::Owned(text.nfc().collect()) }
}

fn whole(raw: &str) -> Option<i64> {
    /// Up to here every whole number is a double of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    raw.parse().ok().or_else(|| {
        let number = number(raw)?;
        #[allow(clippy::cast_possible_truncation, reason = "whole and within 53 bits")]
        (number.fract() == 0.0 && number.abs() < EXACT).then_some(number as i64)
    })
}

fn number(raw: &str) -> Option<f64> {
    let is_number = raw.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    if is_number { raw.parse().ok().filter(|n: &f64| n.is_finite()) } else { None }
}

fn span(range: &RangeInclusive<usize>) -> String {
    match (range.start(), range.end()) {
        (from, to) if from == to => from.to_string(),
        (0, to) => format!("up to {to}"),
        (from, to) => format!("{from} to {to}"),
    }
}

fn between<N: fmt::Display>(range: &impl RangeBounds<N>) -> String {
    let from = match range.start_bound() {
        Bound::Included(n) => format!(" from {n}"),
        Bound::Excluded(n) => format!(" above {n}"),
        Bound::Unbounded => String::new(),
    };
    match range.end_bound() {
        Bound::Included(n) => format!("{from} to {n}"),
        Bound::Excluded(n) => format!("{from}, below {n}"),
        Bound::Unbounded => from,
    }
}

/// Results of readers: all of them, or nothing.
pub trait AllRead {
    /// What they read.
    type Read;
    /// Everything, if each was read.
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

macro_rules! all_read {
    ($($name:ident)+) => {
        impl<$($name),+> AllRead for ($(Option<$name>,)+) {
            type Read = ($($name,)+);
            #[allow(non_snake_case, reason = "the names of the types serve as those of the values")]
            fn all_read(self) -> Option<Self::Read> {
                let ($($name,)+) = self;
                Some(($($name?,)+))
            }
        }
    };
}
all_read!(A);
all_read!(A B);
all_read!(A B C);
all_read!(A B C D);
all_read!(A B C D E);
all_read!(A B C D E F);
all_read!(A B C D E F G);
all_read!(A B C D E F G H);
all_read!(A B C D E F G H I);
all_read!(A B C D E F G H I J);

#[cfg(test)]
mod tests;
