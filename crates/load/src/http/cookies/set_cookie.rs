//! `Set-Cookie` headers (RFC 6265 §5.2, with the checks of Go's `net/http`).

use super::date;

/// Larger headers are ignored; the limit of browsers is 4 KiB.
const MAX_SET_COOKIE_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SetCookie {
    pub(crate) name: String,
    /// Without the quotes around it.
    pub(crate) value: String,
    pub(crate) quoted: bool,
    /// As given; empty without.
    pub(crate) domain: String,
    /// As given; empty without.
    pub(crate) path: String,
    pub(crate) secure: bool,
    pub(crate) http_only: bool,
    /// Seconds as in Go: 0 without, negative deletes the cookie.
    pub(crate) max_age: i64,
    /// Seconds since 1970.
    pub(crate) expires: Option<i64>,
}

impl SetCookie {
    /// Parses a header value; `None` when it sets no cookie.
    pub(crate) fn parse(header: &[u8]) -> Option<Self> {
        if header.len() > MAX_SET_COOKIE_BYTES {
            return None;
        }
        let text = String::from_utf8_lossy(header);
        let mut parts = text.split(';');
        let (name, value) = parts.next()?.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let quoted = inner.is_some();
        let value = inner.unwrap_or(value);
        if !is_name(name) || !value.bytes().all(is_value_byte) {
            return None;
        }
        let mut cookie =
            Self { name: name.to_owned(), value: value.to_owned(), quoted, ..Self::default() };
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            cookie.set_attribute(key.trim(), value.trim());
        }
        Some(cookie)
    }

    fn set_attribute(&mut self, key: &str, value: &str) {
        match key.to_ascii_lowercase().as_str() {
            "domain" => self.domain = value.to_owned(),
            "path" => self.path = value.to_owned(),
            "secure" => self.secure = true,
            "httponly" => self.http_only = true,
            "expires" => self.expires = date::parse(value),
            "max-age" => {
                if let Ok(seconds) = value.parse::<i64>() {
                    self.max_age = if seconds <= 0 { -1 } else { seconds };
                }
            }
            _ => {}
        }
    }
}

/// A token (RFC 9110 §5.6.2).
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(crate::http::is_token_byte)
}

/// Bytes that Go allows in a cookie's value.
pub(super) fn is_value_byte(byte: u8) -> bool {
    (0x20..0x7f).contains(&byte) && !matches!(byte, b'"' | b';' | b'\\')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn name_value_and_attributes_are_read() {
        let cookie = SetCookie::parse(
            b"id=\"a b\"; Path=/x; DOMAIN=.Example.org; Max-Age=60; Secure; HttpOnly; SameSite=Lax; \
              Expires=Thu, 01 Jan 1970 00:00:01 GMT",
        );
        let expected = SetCookie {
            name: "id".into(),
            value: "a b".into(),
            quoted: true,
            domain: ".Example.org".into(),
            path: "/x".into(),
            secure: true,
            http_only: true,
            max_age: 60,
            expires: Some(1),
        };
        assert_eq!(cookie, Some(expected));
        assert_eq!(SetCookie::parse(b"a=1; max-age=0").unwrap().max_age, -1);
        assert_eq!(SetCookie::parse(b"a=b=c").unwrap().value, "b=c");
    }

    #[test]
    fn what_sets_no_cookie_is_ignored() {
        for header in ["", "a", "=v", "a b=c", "a=\"", "a=\x01", "a=ü"] {
            assert_eq!(SetCookie::parse(header.as_bytes()), None, "{header:?}");
        }
        assert_eq!(SetCookie::parse(format!("a={}", "x".repeat(20_000)).as_bytes()), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = SetCookie::parse(&bytes);
        }
    }
}
