//! Digest authentication (RFC 7616).

use std::fmt::Write as _;

use base16ct::lower::encode_string as hex;
use md5::{Digest as _, Md5};
use sha2::Sha256;

pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    /// Path and query as in the request line.
    pub(crate) target: &'a str,
    /// `user:password`.
    pub(crate) user_info: &'a str,
    pub(crate) cnonce: &'a str,
}

/// The `Authorization` header for a `WWW-Authenticate` header; `None` for an unsupported challenge.
pub(crate) fn authorization(challenge: &str, asked: &Asked<'_>) -> Option<String> {
    let scheme = challenge.get(..7)?;
    if !scheme.eq_ignore_ascii_case("digest ") {
        return None;
    }
    let fields = fields(&challenge[7..]);
    let field = |name: &str| {
        let found = fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    };
    let (realm, nonce) = (field("realm")?, field("nonce")?);
    let algorithm = field("algorithm").unwrap_or("MD5");
    let (base, is_session) = match algorithm.to_ascii_lowercase().strip_suffix("-sess") {
        Some(base) => (base.to_owned(), true),
        None => (algorithm.to_ascii_lowercase(), false),
    };
    let hash: fn(&str) -> String = match &*base {
        "md5" => |text| hex(&Md5::digest(text)),
        "sha-256" => |text| hex(&Sha256::digest(text)),
        _ => return None,
    };
    let Asked { method, target, user_info, cnonce } = asked;
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    let mut secret = hash(&format!("{user}:{realm}:{password}"));
    if is_session {
        secret = hash(&format!("{secret}:{nonce}:{cnonce}"));
    }
    let what = hash(&format!("{method}:{target}"));
    let mut answer = format!(
        "Digest username=\"{}\", realm=\"{}\", nonce=\"{}\", uri=\"{target}\"",
        escaped(user),
        escaped(realm),
        escaped(nonce)
    );
    let response = match field("qop") {
        None => hash(&format!("{secret}:{nonce}:{what}")),
        Some(offered) if offered.split(',').any(|one| one.trim().eq_ignore_ascii_case("auth")) => {
            let _ = write!(answer, ", qop=auth, nc=00000001, cnonce=\"{cnonce}\"");
            hash(&format!("{secret}:{nonce}:00000001:{cnonce}:auth:{what}"))
        }
        Some(_) => return None,
    };
    let _ = write!(answer, ", response=\"{response}\"");
    if field("algorithm").is_some() {
        let _ = write!(answer, ", algorithm={algorithm}");
    }
    if let Some(opaque) = field("opaque") {
        let _ = write!(answer, ", opaque=\"{}\"", escaped(opaque));
    }
    Some(answer)
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Comma-separated `name=value` and `name="value"`.
fn fields(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', ',', '\t']).to_owned();
        let after = after.trim_start();
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let end = after.find(',').unwrap_or(after.len());
                (after[..end].trim_end().to_owned(), &after[end..])
            }
        };
        found.push((name, value));
        rest = left;
    }
    found
}

/// The unescaped text before the closing quote, and the rest after it.
fn unquoted(text: &str) -> (String, &str) {
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            _ if std::mem::take(&mut is_escaped) => value.push(c),
            '\\' => is_escaped = true,
            '"' => return (value, &text[at + 1..]),
            _ => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked<'_> = Asked {
        method: "GET",
        target: "/dir/index.html",
        user_info: "Mufasa:Circle of Life",
        cnonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
    };

    fn challenge(algorithm: &str) -> String {
        format!(
            "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm={algorithm}, \
             nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
             opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
        )
    }

    /// RFC 7616 §3.9.1.
    #[test]
    fn answers_are_those_of_the_standard() {
        for (algorithm, response) in [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let answer = authorization(&challenge(algorithm), &ASKED).unwrap();
            assert!(answer.contains(&format!("response=\"{response}\"")), "{answer}");
            assert!(answer.contains("username=\"Mufasa\""), "{answer}");
        }
    }

    /// RFC 2069 §2.4, with the response that its errata give.
    #[test]
    fn a_challenge_without_protection_is_answered_as_before() {
        let challenge =
            "digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\"";
        let asked = Asked { user_info: "Mufasa:CircleOfLife", ..ASKED };
        let answer = authorization(challenge, &asked).unwrap();
        assert!(answer.contains("response=\"1949323746fe6a43ef61f9606e7febea\""), "{answer}");
        assert!(!answer.contains("qop"), "{answer}");
    }

    #[test]
    fn what_cannot_be_answered_is_not() {
        for challenge in [
            "",
            "Basic realm=\"x\"",
            "Digest realm=\"x\"",
            "Digest realm=\"x\", nonce=\"y\", algorithm=SHA-512-256",
            "Digest realm=\"x\", nonce=\"y\", qop=\"auth-int\"",
        ] {
            assert_eq!(authorization(challenge, &ASKED), None, "{challenge}");
        }
    }

    #[test]
    fn quotes_in_values_end_nothing() {
        let read = fields("a=\"b\\\"c, d=e\" , f = g,h=\"i");
        let pairs: Vec<_> =
            read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("a", "b\"c, d=e"), ("f", "g"), ("h", "i")]);
    }
}
