//! Origins of other pages.

/// Whose pages may use the API from a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigins {
    /// Nobody's but those of this server.
    None,
    /// Everybody's.
    Any,
    /// Those of these origins, as browsers write them.
    These(Vec<String>),
}

/// Parses origins with commas between; an empty text is none, `*` is all.
pub(super) fn origins(text: &str) -> Result<CorsOrigins, String> {
    match text.trim() {
        "" => Ok(CorsOrigins::None),
        "*" => Ok(CorsOrigins::Any),
        list => list
            .split(',')
            .map(|one| origin(one.trim()))
            .collect::<Result<_, _>>()
            .map(CorsOrigins::These),
    }
}

/// An origin is compared byte by byte with what a browser sends, so it must be written as browsers do
/// (RFC 6454, 6.2): in lower case, without a path, and without the port that the scheme has anyway.
fn origin(text: &str) -> Result<String, String> {
    let wrong = |why: &str| Err(format!("{text}: {why}"));
    let Ok(uri) = text.parse::<http::Uri>() else {
        return wrong("an origin is a scheme, a host and an optional port");
    };
    let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return wrong("an origin begins with https:// or http://");
    };
    let default = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return wrong("an origin begins with https:// or http://"),
    };
    if uri.port_u16() == Some(default) {
        return wrong("browsers omit the default port of the scheme");
    }
    let port = uri.port_u16().map_or_else(String::new, |port| format!(":{port}"));
    let written = format!("{scheme}://{}{port}", host.to_ascii_lowercase());
    if written == text {
        Ok(written)
    } else {
        wrong(&format!("write it as browsers do: {written}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_those_that_browsers_send() {
        assert_eq!(origins(" "), Ok(CorsOrigins::None));
        assert_eq!(origins("*"), Ok(CorsOrigins::Any));
        let these = origins("https://app.example.com, http://localhost:5173,http://[::1]:3000");
        let wanted = ["https://app.example.com", "http://localhost:5173", "http://[::1]:3000"];
        assert_eq!(these, Ok(CorsOrigins::These(wanted.map(str::to_owned).to_vec())));
        for wrong in [
            "example.com", "https://", "https://example.com/", "https://Example.com",
            "https://example.com:443", "http://example.com:80", "https://user@example.com",
            "ftp://example.com", "null", "*, https://example.com", "https://a.example,",
        ] {
            assert!(origins(wrong).is_err(), "{wrong}");
        }
    }
}
