//! Cookie jar of one virtual user (RFC 6265 §5.3 and §5.4).

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::SetCookie;
use super::set_cookie::is_name;
use crate::http::{Head, Url};

/// Limit of cookies in a jar; the oldest is removed first. Browsers keep 180 per domain.
const MAX_COOKIES: usize = 256;

/// Limit of names, values, domains and paths in a jar: there are thousands of jars, and a request could not carry more.
const MAX_JAR_BYTES: usize = 128 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) name: Rc<str>,
    pub(crate) value: Rc<str>,
    pub(crate) quoted: bool,
}

#[derive(Debug)]
struct Stored {
    pair: Pair,
    domain: Box<str>,
    /// Not for hosts below `domain`.
    host_only: bool,
    path: Box<str>,
    secure: bool,
    /// Seconds since 1970; `None` lasts as long as the jar.
    expires: Option<i64>,
}

impl Stored {
    fn bytes(&self) -> usize {
        self.pair.name.len() + self.pair.value.len() + self.domain.len() + self.path.len()
    }

    fn is_for(&self, url: &Url) -> bool {
        let host_matches =
            *url.host == *self.domain || (!self.host_only && is_below(&url.host, &self.domain));
        // As in browsers and Go's jar a connection to this machine counts as safe.
        let safe = !self.secure || url.secure || is_own_machine(&url.host);
        host_matches && safe && path_matches(url.path(), &self.path)
    }
}

fn is_own_machine(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The cookies of one virtual user, in the order they were set.
#[derive(Debug, Default)]
pub(crate) struct Jar {
    cookies: RefCell<Vec<Stored>>,
}

impl Jar {
    pub(crate) fn is_empty(&self) -> bool {
        self.cookies.borrow().is_empty()
    }

    pub(crate) fn store(&self, url: &Url, head: &Head) {
        let cookies = head.values("set-cookie").filter_map(SetCookie::parse);
        for cookie in cookies.filter(|cookie| is_name(&cookie.name)) {
            self.set(url, &cookie, unix_now());
        }
    }

    /// Stores a cookie set by `url` at `now` (seconds since 1970); an expired one deletes the one it replaces. False
    /// when that host may not set it. As in k6 a script may use any name.
    pub(crate) fn set(&self, url: &Url, cookie: &SetCookie, now: i64) -> bool {
        let Some((domain, host_only)) = domain_of(url, &cookie.domain) else { return false };
        let path: Box<str> = if cookie.path.starts_with('/') {
            cookie.path.as_str().into()
        } else {
            default_path(url.path()).into()
        };
        let cookies = &mut *self.cookies.borrow_mut();
        let known = cookies.iter().position(|known| {
            *known.pair.name == *cookie.name && known.domain == domain && known.path == path
        });
        let expires = match cookie.max_age {
            0 => cookie.expires,
            seconds => Some(now.saturating_add(seconds)),
        };
        if expires.is_some_and(|expires| expires <= now) {
            known.map(|at| cookies.remove(at));
            return true;
        }
        let (name, value) = (cookie.name.as_str().into(), cookie.value.as_str().into());
        let pair = Pair { name, value, quoted: cookie.quoted };
        let stored = Stored { pair, domain, host_only, path, secure: cookie.secure, expires };
        if stored.bytes() > MAX_JAR_BYTES {
            return false;
        }
        match known {
            // In place: the creation time is kept.
            Some(at) => cookies[at] = stored,
            None => cookies.push(stored),
        }
        evict(cookies);
        true
    }

    /// The cookies for a request to `url`: longer paths first, then older cookies (§5.4).
    pub(crate) fn matching(&self, url: &Url, now: i64) -> Vec<Pair> {
        let cookies = &mut *self.cookies.borrow_mut();
        if cookies.is_empty() {
            return Vec::new();
        }
        cookies.retain(|cookie| cookie.expires.is_none_or(|expires| expires > now));
        let mut matching: Vec<&Stored> =
            cookies.iter().filter(|cookie| cookie.is_for(url)).collect();
        matching.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        matching.into_iter().map(|cookie| cookie.pair.clone()).collect()
    }

    /// Removes the cookies for `url`, or only those of one name.
    pub(crate) fn remove(&self, url: &Url, name: Option<&str>) {
        self.cookies.borrow_mut().retain(|cookie| {
            !(cookie.is_for(url) && name.is_none_or(|name| *cookie.pair.name == *name))
        });
    }
}

fn evict(cookies: &mut Vec<Stored>) {
    let mut bytes: usize = cookies.iter().map(Stored::bytes).sum();
    let mut excess = 0;
    while cookies.len() - excess > MAX_COOKIES || bytes > MAX_JAR_BYTES {
        bytes -= cookies[excess].bytes();
        excess += 1;
    }
    cookies.drain(..excess);
}

pub(crate) fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().try_into().unwrap_or(i64::MAX)
}

/// Domain of a cookie and whether it is limited to that host; `None` when `url` may not set it. As in k6 public
/// suffixes are not consulted.
fn domain_of(url: &Url, attribute: &str) -> Option<(Box<str>, bool)> {
    let domain = attribute.strip_prefix('.').unwrap_or(attribute).to_ascii_lowercase();
    if domain.is_empty() || domain == *url.host {
        // An address has no subdomains.
        let host_only = domain.is_empty() || url.host.parse::<IpAddr>().is_ok();
        return Some((url.host.as_ref().into(), host_only));
    }
    is_below(&url.host, &domain).then(|| (domain.into(), false))
}

fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
        && host.parse::<IpAddr>().is_err()
}

/// §5.1.4: the path up to its last slash.
fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}

/// §5.1.4.
fn path_matches(path: &str, cookie_path: &str) -> bool {
    path.strip_prefix(cookie_path)
        .is_some_and(|rest| rest.is_empty() || cookie_path.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn set(jar: &Jar, from: &str, header: &str) -> bool {
        jar.set(&url(from), &SetCookie::parse(header.as_bytes()).unwrap(), NOW)
    }

    fn sent(jar: &Jar, to: &str, now: i64) -> String {
        super::super::cookie_header(None, &jar.matching(&url(to), now), &[])
    }

    #[test]
    fn a_cookie_goes_to_its_host_and_with_a_domain_to_hosts_below() {
        let jar = Jar::default();
        assert!(set(&jar, "http://www.example.org/", "host=1"));
        assert!(set(&jar, "http://www.example.org/", "all=1; Domain=.Example.org"));
        assert_eq!(sent(&jar, "http://www.example.org/", NOW), "host=1; all=1");
        assert_eq!(sent(&jar, "http://a.example.org/", NOW), "all=1");
        assert_eq!(sent(&jar, "http://example.org/", NOW), "all=1");
        assert_eq!(sent(&jar, "http://a.www.example.org/", NOW), "all=1");
        assert_eq!(sent(&jar, "http://badexample.org/", NOW), "");
    }

    #[test]
    fn a_host_cannot_set_cookies_for_others() {
        let jar = Jar::default();
        assert!(!set(&jar, "http://a.example.org/", "x=1; Domain=b.example.org"));
        assert!(!set(&jar, "http://example.org/", "x=1; Domain=a.example.org"));
        assert!(!set(&jar, "http://badexample.org/", "x=1; Domain=example.org"));
        assert!(!set(&jar, "http://127.0.0.1/", "x=1; Domain=0.0.1"));
        assert!(jar.is_empty());
        assert!(set(&jar, "http://127.0.0.1/", "x=1; Domain=127.0.0.1"));
    }

    #[test]
    fn paths_match_whole_segments_and_longer_ones_come_first() {
        let jar = Jar::default();
        set(&jar, "http://h/", "root=1; Path=/");
        set(&jar, "http://h/a/b", "default=1");
        set(&jar, "http://h/", "deep=1; Path=/a/b/");
        assert_eq!(sent(&jar, "http://h/a/b/c?q", NOW), "deep=1; default=1; root=1");
        assert_eq!(sent(&jar, "http://h/a", NOW), "default=1; root=1");
        assert_eq!(sent(&jar, "http://h/ab", NOW), "root=1");
    }

    #[test]
    fn secure_cookies_need_tls_and_ports_do_not_matter() {
        let jar = Jar::default();
        set(&jar, "https://h/", "s=1; Secure");
        assert_eq!(sent(&jar, "http://h/", NOW), "");
        assert_eq!(sent(&jar, "https://h:8443/", NOW), "s=1");
    }

    /// As in Go 1.26, with which k6 1.8.1 is built.
    #[test]
    fn secure_cookies_go_to_the_own_machine_without_tls() {
        for (host, expected) in [
            ("localhost", "s=1"),
            ("a.localhost", "s=1"),
            ("127.0.0.1:8080", "s=1"),
            ("[::1]", "s=1"),
            ("notlocalhost", ""),
            ("10.0.0.1", ""),
        ] {
            let jar = Jar::default();
            set(&jar, &format!("http://{host}/"), "s=1; Secure");
            assert_eq!(sent(&jar, &format!("http://{host}/"), NOW), expected, "{host}");
        }
    }

    #[test]
    fn cookies_expire_and_max_age_beats_expires() {
        let jar = Jar::default();
        set(&jar, "http://h/", "a=1; Max-Age=10; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
        set(&jar, "http://h/", "b=1");
        assert_eq!(sent(&jar, "http://h/", NOW + 9), "a=1; b=1");
        assert_eq!(sent(&jar, "http://h/", NOW + 10), "b=1");
        set(&jar, "http://h/", "b=2; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
        assert!(jar.is_empty());
    }

    #[test]
    fn setting_again_replaces_the_value_in_its_place() {
        let jar = Jar::default();
        for header in ["a=1", "b=1", "a=2"] {
            set(&jar, "http://h/", header);
        }
        assert_eq!(sent(&jar, "http://h/", NOW), "a=2; b=1");
        jar.remove(&url("http://h/"), Some("a"));
        assert_eq!(sent(&jar, "http://h/", NOW), "b=1");
        jar.remove(&url("http://h/"), None);
        assert!(jar.is_empty());
    }

    #[test]
    fn a_server_cannot_fill_the_memory() {
        let jar = Jar::default();
        for index in 0..MAX_COOKIES + 10 {
            set(&jar, "http://h/", &format!("c{index}=1"));
        }
        let kept = jar.matching(&url("http://h/"), NOW);
        assert_eq!((kept.len(), &*kept[0].name), (MAX_COOKIES, "c10"));
        for index in 0..100 {
            set(&jar, "http://h/", &format!("big{index}={}", "x".repeat(10_000)));
        }
        let bytes: usize = jar.cookies.borrow().iter().map(Stored::bytes).sum();
        assert!(bytes <= MAX_JAR_BYTES && bytes > MAX_JAR_BYTES - 20_000, "{bytes}");
    }
}
