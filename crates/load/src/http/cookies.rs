//! Cookies of virtual users (RFC 6265), with the rules of Go's `net/http` and its jar, which k6 uses.
//!
//! No crate fits: those that parse have no rules for matching and limits, and the one with a store brings tables of
//! public suffixes and international names, which k6 does not consult.

mod date;
mod jar;
mod set_cookie;

use super::outgoing::is_token_byte;
pub(crate) use date::parse as parse_date;
pub(crate) use jar::{Jar, Pair, unix_now};
pub(crate) use set_cookie::SetCookie;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestCookie {
    pub(crate) name: String,
    pub(crate) value: String,
    /// Replaces the jar's cookies of that name.
    pub(crate) replace: bool,
}

/// The `Cookie` header: the value given by the script, then the request's cookies, then those of the jar. Empty without
/// cookies.
pub(crate) fn cookie_header(given: Option<&str>, jar: &[Pair], own: &[RequestCookie]) -> String {
    let mut out = given.unwrap_or_default().to_owned();
    let replaced = |name: &str| own.iter().any(|cookie| cookie.replace && cookie.name == name);
    for cookie in own {
        push(&mut out, &cookie.name, &cookie.value, false);
    }
    for pair in jar.iter().filter(|pair| !replaced(&pair.name)) {
        push(&mut out, &pair.name, &pair.value, pair.quoted);
    }
    out
}

/// Parses a `Cookie` header as Go does.
pub(crate) fn read_cookie_header(header: &str) -> impl Iterator<Item = (&str, &str)> {
    header.split(';').filter_map(|cookie| {
        let cookie = cookie.trim_matches([' ', '\t']);
        let (name, value) = cookie.split_once('=').unwrap_or((cookie, ""));
        let name = name.trim_matches([' ', '\t']);
        let value = value.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or(value);
        let is_name = !name.is_empty() && name.bytes().all(is_token_byte);
        (is_name && value.bytes().all(set_cookie::is_value_byte)).then_some((name, value))
    })
}

/// Appends a cookie. As in Go invalid bytes of the value are left out and those of the name replaced.
fn push(out: &mut String, name: &str, value: &str, quoted: bool) {
    if !out.is_empty() {
        out.push_str("; ");
    }
    let in_header = |c: char| c == '\t' || !c.is_ascii_control();
    out.extend(name.chars().map(|c| if in_header(c) { c } else { '-' }));
    out.push('=');
    let quotes = quoted || value.contains([' ', ',']);
    let value = value.bytes().filter(|byte| set_cookie::is_value_byte(*byte)).map(char::from);
    if quotes {
        out.push('"');
    }
    out.extend(value);
    if quotes {
        out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(name: &str, value: &str, replace: bool) -> RequestCookie {
        RequestCookie { name: name.to_owned(), value: value.to_owned(), replace }
    }

    #[test]
    fn a_request_adds_to_the_jar_or_replaces_what_is_in_it() {
        let jar = [Pair { name: "a".into(), value: "1".into(), quoted: false }];
        assert_eq!(cookie_header(None, &jar, &[own("a", "2", false)]), "a=2; a=1");
        assert_eq!(cookie_header(None, &jar, &[own("a", "2", true)]), "a=2");
        assert_eq!(cookie_header(Some("x=y"), &jar, &[]), "x=y; a=1");
        assert_eq!(cookie_header(None, &[], &[]), "");
    }

    #[test]
    fn cookies_are_read_as_by_go() {
        let read: Vec<_> =
            read_cookie_header(" a=1; b=\"2 3\";c ;=4;d e=5; f=\"; g=\u{fc};").collect();
        assert_eq!(read, [("a", "1"), ("b", "2 3"), ("c", "")]);
    }

    #[test]
    fn no_value_can_end_the_header() {
        let header = cookie_header(None, &[], &[own("a\r\nb", "1\r\nX: y;\"\\ü 2", false)]);
        assert_eq!(header, "a--b=\"1X: y 2\"");
    }
}
