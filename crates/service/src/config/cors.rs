//! Origins for CORS.

/// Origins whose pages may use the API from a browser, besides this server's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigins {
    None,
    Any,
    /// As browsers write them.
    These(Vec<String>),
}

/// Origins separated by commas; empty = none, `*` = all.
pub(super) fn origins(text: &str) -> Option<CorsOrigins> {
    match text.trim() {
        "" => Some(CorsOrigins::None),
        "*" => Some(CorsOrigins::Any),
        list => {
            let these: Option<_> = list.split(',').map(|one| origin(one.trim())).collect();
            these.map(CorsOrigins::These)
        }
    }
}

/// An origin is compared byte by byte with a browser's, so it must be written alike (RFC 6454, 6.2): in lower case,
/// without a path or the scheme's default port.
fn origin(text: &str) -> Option<String> {
    let uri = text.parse::<http::Uri>().ok()?;
    let (scheme, host) = (uri.scheme_str()?, uri.host()?);
    let default = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    if uri.port_u16() == Some(default) {
        return None;
    }
    let port = uri.port_u16().map_or_else(String::new, |port| format!(":{port}"));
    let written = format!("{scheme}://{}{port}", host.to_ascii_lowercase());
    (written == text).then_some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_those_that_browsers_send() {
        assert_eq!(origins(" "), Some(CorsOrigins::None));
        assert_eq!(origins("*"), Some(CorsOrigins::Any));
        let these = origins("https://app.example.com, http://localhost:5173,http://[::1]:3000");
        let wanted = ["https://app.example.com", "http://localhost:5173", "http://[::1]:3000"];
        assert_eq!(these, Some(CorsOrigins::These(wanted.map(str::to_owned).to_vec())));
        for wrong in [
            "example.com", "https://", "https://example.com/", "https://Example.com",
            "https://example.com:443", "http://example.com:80", "https://user@example.com",
            "ftp://example.com", "null", "*, https://example.com", "https://a.example,",
        ] {
            assert!(origins(wrong).is_none(), "{wrong}");
        }
    }
}
