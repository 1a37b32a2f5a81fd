//! Requests refused for their head. hyper has refused what it cannot parse, two different lengths, and transfer
//! codings that do not end in `chunked`.

use super::Problem;
use http::request::Parts;
use http::{HeaderMap, Version, header};

/// Maximum length of path and query in bytes; a longer one is answered 414. RFC 9110 (4.1) asks for at least 8,000
/// octets of a whole URI; the longest that this API generates is a tenth of it.
const LONGEST_TARGET: usize = 8192;

/// Checks the head of a request. `chunked` = it has a `Transfer-Encoding`.
///
/// # Errors
/// 400, 414 or 501. A head that two programs could read differently closes the connection.
pub(crate) fn check(parts: &Parts, chunked: bool) -> Result<(), Problem> {
    if parts.uri.path_and_query().is_some_and(|target| target.as_str().len() > LONGEST_TARGET) {
        return Err(Problem::target_too_long(LONGEST_TARGET));
    }
    check_host(parts)?;
    if chunked && !is_only_chunked(&parts.headers) {
        return Err(
            Problem::not_implemented("the only supported transfer coding is chunked").closing()
        );
    }
    Ok(())
}

/// RFC 9112, 3.2: exactly one host, in HTTP/1.0 at most one. With two, a proxy in front may have used the other one.
fn check_host(parts: &Parts) -> Result<(), Problem> {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let wrong = match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_host(host.as_bytes()) => return Ok(()),
        (None, _) if parts.version < Version::HTTP_11 => return Ok(()),
        (None, _) => "the Host header is missing",
        (Some(_), None) => "the Host header is not a host with an optional port",
        (Some(_), Some(_)) => "there is more than one Host header",
    };
    Err(Problem::bad_request(wrong).closing())
}

/// True if a host and port can consist of these bytes (RFC 3986, 3.2.2); they may be empty.
fn is_host(host: &[u8]) -> bool {
    host.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%[]:".contains(byte))
}

fn is_only_chunked(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::TRANSFER_ENCODING).iter();
    let mut codings = lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        // Empty list elements are ignored (RFC 9110, 5.6.1.2).
        .filter(|coding| !coding.is_empty());
    codings.next().is_some_and(|coding| coding.eq_ignore_ascii_case(b"chunked"))
        && codings.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn status(version: Version, lines: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().version(version).uri("/");
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let chunked = parts.headers.contains_key(header::TRANSFER_ENCODING);
        check(&parts, chunked).map_or_else(|problem| problem.status().as_u16(), |()| 200)
    }

    #[test]
    fn a_request_names_one_host() {
        for good in ["example.org", "example.org:8080", "[::1]:80", "127.0.0.1", ""] {
            assert_eq!(status(Version::HTTP_11, &[("host", good)]), 200, "{good:?}");
        }
        for wrong in ["a b", "a/b", "user@a", "a?b", "a#b", "a\\b", "a\"", "a<b>"] {
            assert_eq!(status(Version::HTTP_11, &[("host", wrong)]), 400, "{wrong:?}");
        }
        assert_eq!(status(Version::HTTP_11, &[]), 400);
        assert_eq!(status(Version::HTTP_10, &[]), 200);
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert_eq!(status(version, &[("host", "a"), ("host", "a")]), 400);
        }
    }

    #[test]
    fn chunked_is_the_only_transfer_coding() {
        let of = |lines: &[&str]| {
            let lines = lines.iter().map(|line| ("transfer-encoding", *line));
            let all: Vec<_> = [("host", "a")].into_iter().chain(lines).collect();
            status(Version::HTTP_11, &all)
        };
        for good in [&["chunked"][..], &["Chunked"], &[" , chunked,"], &["", "chunked"]] {
            assert_eq!(of(good), 200, "{good:?}");
        }
        for unknown in [&["gzip, chunked"][..], &["gzip", "chunked"], &["chunked, chunked"], &["x"]]
        {
            assert_eq!(of(unknown), 501, "{unknown:?}");
        }
    }
}
