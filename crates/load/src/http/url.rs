//! URLs of requests: `http[s]://[user[:password]@]host[:port][/path][?query]`.
//!
//! A small parser after RFC 3986: the general crates normalise more than k6 does and bring Unicode domain tables.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::rc::Rc;

use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode, utf8_percent_encode,
};

use super::{RequestError, Result};

const MAX_URL_BYTES: usize = 64 * 1024;

/// Limit of a scheme shown in a message.
const MAX_SCHEME_BYTES: usize = 32;

/// Characters that Go encodes in a form, a path and a fragment.
const QUERY: &AsciiSet = &all_but(NON_ALPHANUMERIC, b"-_.~");
const PATH: &AsciiSet = &all_but(QUERY, b"$&+,/:;=@");
const FRAGMENT: &AsciiSet = &all_but(PATH, b"?!()*");

const fn all_but(set: &AsciiSet, plain: &[u8]) -> AsciiSet {
    match plain {
        [] => set.union(AsciiSet::EMPTY),
        [byte, rest @ ..] => all_but(&set.remove(*byte), rest),
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Url {
    /// The whole URL as Go writes it, without user information.
    pub(crate) text: Rc<str>,
    /// Host name or address literal in lower case, without brackets.
    pub(crate) host: Rc<str>,
    pub(crate) port: u16,
    pub(crate) secure: bool,
    /// `host` or `host:port` for the `Host` header.
    pub(crate) authority: Rc<str>,
    /// Path and query for the request line, never empty.
    pub(crate) target: Rc<str>,
    /// `user:password`, percent-decoded.
    pub(crate) user_info: Option<Rc<str>>,
    /// `user:password` as given.
    user_text: Option<Rc<str>>,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_URL_BYTES {
            return Err(RequestError::InvalidUrl("longer than 64 KiB"));
        }
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(RequestError::InvalidUrl("contains a control character"));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(other_scheme(text.split_once(':').map_or("", |(scheme, _)| scheme)));
        };
        let secure = scheme.eq_ignore_ascii_case("https");
        if !secure && !scheme.eq_ignore_ascii_case("http") {
            return Err(other_scheme(scheme));
        }
        let (rest, fragment) = match rest.split_once('#') {
            Some((rest, fragment)) => (rest, Some(fragment)),
            None => (rest, None),
        };
        let split = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(split);
        let (user_text, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, authority),
        };
        let ascii = international(authority)?;
        let (host, port) = split_port(&ascii)?;
        let port = port.unwrap_or(if secure { 443 } else { 80 });
        let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
        let path = escaped(path, PATH)?;
        // Go percent-encodes a name that is not ASCII.
        let shown = utf8_percent_encode(authority, &AsciiSet::EMPTY);
        let scheme = if secure { "https" } else { "http" };
        let mut text = format!("{scheme}://{shown}{path}{query}");
        if let Some(fragment) = fragment.filter(|fragment| !fragment.is_empty()) {
            let _ = write!(text, "#{}", escaped(fragment, FRAGMENT)?);
        }
        let target = format!("{}{query}", if path.is_empty() { "/" } else { &path });
        Ok(Self {
            text: text.into(),
            host: host.to_ascii_lowercase().into(),
            port,
            secure,
            authority: (&*ascii).into(),
            target: target.into(),
            user_info: user_text.map(|user| percent_decode(user).into()),
            user_text: user_text.map(Rc::from),
        })
    }

    /// The whole URL with its user information.
    pub(crate) fn full(&self) -> Rc<str> {
        self.with_user(|user| user.into())
    }

    /// The whole URL for tags, with masked user information.
    pub(crate) fn masked(&self) -> Rc<str> {
        self.with_user(|user| (if user.contains(':') { "****:****" } else { "****" }).into())
    }

    fn with_user(&self, shown: impl FnOnce(&str) -> Cow<'_, str>) -> Rc<str> {
        match (&self.user_text, self.text.split_once("://")) {
            (Some(user), Some((scheme, rest))) => {
                format!("{scheme}://{}@{rest}", shown(user)).into()
            }
            _ => self.text.clone(),
        }
    }

    /// A placeholder for an invalid URL, as the name of its failed request.
    pub(crate) fn unusable(text: &str) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Resolves a `Location` header against this URL (RFC 3986 §5.2, without the rare merging of empty paths).
    pub(crate) fn join(&self, location: &str) -> Result<Self> {
        if !Self::is_relative(location) {
            return Self::parse(location);
        }
        if let Some(rest) = location.strip_prefix("//") {
            return Self::parse(&format!("{}://{rest}", self.scheme()));
        }
        let path = self.path();
        let target = if location.starts_with('/') {
            remove_dot_segments(location)
        } else if location.starts_with('?') {
            format!("{path}{location}")
        } else {
            let directory = path.rfind('/').map_or("/", |at| &path[..=at]);
            remove_dot_segments(&format!("{directory}{location}"))
        };
        let joined = Self::parse(&format!("{}://{}{target}", self.scheme(), self.authority))?;
        // As in Go and browsers the same server has the same user.
        let (user_info, user_text) = (self.user_info.clone(), self.user_text.clone());
        Ok(Self { user_info, user_text, ..joined })
    }

    pub(crate) fn is_relative(location: &str) -> bool {
        let scheme_end = location.find([':', '/', '?', '#']);
        !scheme_end.is_some_and(|at| at > 0 && location[at..].starts_with(':'))
    }

    /// True if the host is that of `other` or a subdomain; ports do not matter.
    pub(crate) fn is_within_domain_of(&self, other: &Self) -> bool {
        let subdomain = || {
            let above = self.host.strip_suffix(&*other.host)?;
            // An address literal has no domain.
            Some(above.ends_with('.') && !self.host.contains([':', '%']))
        };
        self.host == other.host || subdomain().unwrap_or(false)
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    /// The path for the request line, without the query.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or("/")
    }
}

/// The error of a URL that begins with neither `http://` nor `https://`.
fn other_scheme(scheme: &str) -> RequestError {
    let part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if scheme.contains('/') || scheme.len() > MAX_SCHEME_BYTES {
        // As in `a/b:c`: the colon ends no scheme.
        RequestError::UnsupportedScheme(String::new())
    } else if scheme.chars().all(part) && !scheme.starts_with(|c: char| !c.is_ascii_alphabetic()) {
        RequestError::UnsupportedScheme(scheme.to_ascii_lowercase())
    } else {
        // As in ` http://h/`: a scheme has no blanks, and nothing is trimmed.
        RequestError::InvalidUrl("first path segment in URL cannot contain colon")
    }
}

/// The ASCII form of a name in any script: as in k6 punycode of each label without mapping.
fn international(authority: &str) -> Result<Cow<'_, str>> {
    if authority.is_ascii() {
        return Ok(Cow::Borrowed(authority));
    }
    let labels = authority.split('.').map(|label| {
        if label.is_ascii() {
            return Some(label.to_owned());
        }
        let (label, port) = label.split_at(label.find(':').unwrap_or(label.len()));
        idna::punycode::encode_str(label).map(|encoded| format!("xn--{encoded}{port}"))
    });
    let wrong = RequestError::InvalidUrl("not an international domain name");
    Ok(labels.collect::<Option<Vec<_>>>().ok_or(wrong)?.join(".").into())
}

pub(super) fn split_port(authority: &str) -> Result<(&str, Option<u16>)> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) =
            rest.split_once(']').ok_or(RequestError::InvalidUrl("`[` without `]`"))?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(RequestError::InvalidUrl("not an IPv6 address between `[` and `]`"));
        }
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return Err(RequestError::InvalidUrl("text after `]`")),
        }
    } else {
        match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    if host.is_empty() {
        return Err(RequestError::InvalidUrl("no host"));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:%".contains(c);
    if !host.chars().all(allowed) {
        return Err(RequestError::InvalidUrl("a character that host names cannot contain"));
    }
    match port {
        None | Some("") => Ok((host, None)),
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port
            .parse()
            .map(|port| (host, Some(port)))
            .map_err(|_| RequestError::InvalidUrl("port > 65535")),
        Some(_) => Err(RequestError::InvalidUrl("the port is not a number")),
    }
}

/// Percent-encodes all but letters, digits and `-_.~`, for queries and forms; a space becomes `+`.
pub(crate) fn escape_query(text: &str, out: &mut String) {
    for (index, word) in text.split(' ').enumerate() {
        out.push_str(if index == 0 { "" } else { "+" });
        out.extend(utf8_percent_encode(word, QUERY));
    }
}

/// A path or fragment as Go's `net/url` writes it: unchanged if validly encoded, otherwise decoded and encoded again.
/// Queries stay unchanged.
fn escaped<'t>(text: &'t str, set: &'static AsciiSet) -> Result<Cow<'t, str>> {
    let is_hex = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !text.split('%').skip(1).all(is_hex) {
        return Err(RequestError::InvalidUrl("a `%` without two hexadecimal digits"));
    }
    let is_valid =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/?[]%".contains(&byte);
    if text.bytes().all(is_valid) {
        return Ok(text.into());
    }
    let decoded: Vec<u8> = percent_decode_str(text).collect();
    Ok(percent_encode(&decoded, set).to_string().into())
}

pub(crate) fn percent_decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// RFC 3986 §5.2.4 on a path that may carry a query.
fn remove_dot_segments(target: &str) -> String {
    let (path, query) = match target.find('?') {
        Some(at) => target.split_at(at),
        None => (target, ""),
    };
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (index, segment) in segments.iter().enumerate() {
        let last = index + 1 == segments.len();
        match *segment {
            ".." => {
                kept.pop();
                if last {
                    kept.push("");
                }
            }
            "." if last => kept.push(""),
            "." => {}
            other => kept.push(other),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn an_address_is_split_into_its_parts() {
        let url = parse("http://us%20er:pw@Example.org:8080/a b/ü?q=1 2&r=%41#frag");
        assert_eq!(&*url.host, "example.org");
        assert_eq!(url.port, 8080);
        assert_eq!(&*url.authority, "Example.org:8080");
        assert_eq!(&*url.target, "/a%20b/%C3%BC?q=1 2&r=%41");
        assert_eq!(url.user_info.as_deref(), Some("us er:pw"));
        assert_eq!(&*url.text, "http://Example.org:8080/a%20b/%C3%BC?q=1 2&r=%41#frag");
    }

    /// Found with `url.Parse(…).String()` of Go 1.26.
    #[test]
    fn paths_are_encoded_as_in_go() {
        for (given, encoded) in [
            ("/a b", "/a%20b"),
            ("/%2f%41", "/%2f%41"),
            ("/a%2Fb c", "/a/b%20c"),
            ("/it's(a)[x]!*", "/it's(a)[x]!*"),
            ("/a|b", "/a%7Cb"),
            ("/a ", "/a%20"),
            ("/a?b ", "/a?b "),
            ("/a?b #c", "/a?b "),
            ("/^`{}", "/%5E%60%7B%7D"),
            ("/a;b=c:d@e&f$g,h", "/a;b=c:d@e&f$g,h"),
        ] {
            assert_eq!(&*parse(&format!("http://h{given}")).target, encoded);
        }
    }

    #[test]
    fn escaping_follows_the_form_rules() {
        let mut out = String::new();
        escape_query("a b&c=ü~", &mut out);
        assert_eq!(out, "a+b%26c%3D%C3%BC~");
    }

    #[test]
    fn a_name_in_any_script_is_sent_as_the_dns_has_it() {
        let url = parse("http://Bücher.example:81/ü");
        assert_eq!(&*url.text, "http://B%C3%BCcher.example:81/%C3%BC");
        assert_eq!(&*url.host, "xn--bcher-kva.example");
        assert_eq!(&*url.authority, "xn--Bcher-kva.example:81");
        assert_eq!(&*parse("http://한국:8080").authority, "xn--3e0b707e:8080");
    }

    #[test]
    fn a_missing_path_and_port_have_defaults() {
        let url = parse("http://localhost?x=1");
        assert_eq!((url.port, &*url.target), (80, "/?x=1"));
        assert_eq!(&*parse("http://[::1]:81").host, "::1");
    }

    #[test]
    fn https_has_a_port_of_its_own() {
        let url = parse("HTTPS://localhost/x");
        assert_eq!((url.port, url.secure, &*url.text), (443, true, "https://localhost/x"));
        assert_eq!(&*url.join("//other/y").unwrap().text, "https://other/y");
        assert_eq!(&*url.join("z").unwrap().text, "https://localhost/z");
        assert!(!url.join("http://other/").unwrap().secure);
    }

    #[test]
    fn broken_addresses_are_refused() {
        for text in [
            "http://", "http:///x", "http://a b/", "http://h:99999/", "http://h:x/",
            "http://[::1/", "http://[zz]/", "http://h/a\nb", "http://u@/", "http://h/100%",
            "http://h/%zz", " http://h/", "http://h/\n", "1http://h/", "ht tp://h/",
        ] {
            assert_eq!(Url::parse(text).unwrap_err().code().0, 1020, "{text:?}");
        }
    }

    #[test]
    fn an_address_of_another_scheme_or_none_is_told_from_a_broken_one() {
        for (text, scheme) in
            [("", ""), ("/x", ""), ("a/b:c", ""), ("localhost:80", "localhost"), ("WS://h/", "ws")]
        {
            let error = Url::parse(text).unwrap_err();
            assert_eq!(error.code().0, 1000, "{text:?}");
            assert_eq!(error.to_string(), format!("unsupported protocol scheme \"{scheme}\""));
        }
    }

    #[test]
    fn locations_are_resolved_as_rfc_3986_says() {
        let base = parse("http://h:81/a/b/c?q=1");
        let join = |location| base.join(location).unwrap().text.to_string();
        assert_eq!(join("http://other/x"), "http://other/x");
        assert_eq!(join("//other/x"), "http://other/x");
        assert_eq!(join("/x/../y"), "http://h:81/y");
        assert_eq!(join("d?e=2"), "http://h:81/a/b/d?e=2");
        assert_eq!(join("../d"), "http://h:81/a/d");
        assert_eq!(join("./"), "http://h:81/a/b/");
        assert_eq!(join("?z=1"), "http://h:81/a/b/c?z=1");
        assert!(base.join("https://other/").unwrap().secure);
    }

    #[test]
    fn the_user_stays_with_the_server() {
        let base = parse("http://u:p@h/a");
        let user = |location| base.join(location).unwrap().user_info;
        for location in ["/x", "x", "?x"] {
            assert_eq!(user(location).as_deref(), Some("u:p"), "{location}");
        }
        assert_eq!((user("//h/x"), user("http://h/x")), (None, None));
        assert_eq!(user("http://v@h/x").as_deref(), Some("v"));
    }

    #[test]
    fn a_domain_has_its_subdomains_and_any_port() {
        let within = |sub: &str, of: &str| parse(sub).is_within_domain_of(&parse(of));
        assert!(within("http://h.org:81/", "https://H.org/"));
        assert!(within("http://a.h.org/", "http://h.org/"));
        assert!(!within("http://h.org/", "http://a.h.org/"));
        assert!(!within("http://ah.org/", "http://h.org/"));
        assert!(!within("http://[::1]/", "http://[::2]/"));
    }

    proptest! {
        #[test]
        fn whatever_parses_is_safe_in_a_request_line(text in "http://[a-z]{1,5}(:[0-9]{1,4})?\\PC{0,40}") {
            if let Ok(url) = Url::parse(&text) {
                prop_assert!(url.target.starts_with('/'));
                prop_assert!(url.target.bytes().all(|b| b >= 0x20 && b != 0x7f));
                prop_assert!(url.path().bytes().all(|b| b.is_ascii_graphic()));
                prop_assert!(url.authority.bytes().all(|b| b.is_ascii_graphic()));
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,60}", location in "\\PC{0,60}") {
            let _ = Url::parse(&text);
            let _ = Url::parse("http://h/a/b").unwrap().join(&location);
        }
    }
}
