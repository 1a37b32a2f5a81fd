//! Content negotiation: media types and content encodings (RFC 9110, sections 12.5.1 and 12.5.3).

use http::header::AsHeaderName;
use http::{HeaderMap, header};
use madang_cache::Encoding;

/// Elements of an `Accept…` header with their weights in thousandths.
fn elements(headers: &HeaderMap, name: impl AsHeaderName) -> impl Iterator<Item = (&str, u16)> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|element| {
            let mut parts = element.split(';').map(str::trim);
            let what = parts.next().unwrap_or("");
            let weight = parts
                .filter_map(|p| p.strip_prefix("q=").or_else(|| p.strip_prefix("Q=")))
                .find_map(parse_weight)
                .unwrap_or(1000);
            (what, weight)
        })
}

fn parse_weight(text: &str) -> Option<u16> {
    let weight: f32 = text.trim().parse().ok()?;
    // In range by the check, so the cast keeps the value.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be 0 to 1"
    )]
    (0.0..=1.0).contains(&weight).then(|| (weight * 1000.0).round() as u16)
}

/// Weights of the content encodings that a client accepts, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Encodings {
    gzip: u16,
    br: u16,
    zstd: u16,
    /// Minimum weight of an encoding: that of the plain body, if the client named it.
    identity: u16,
}

impl Encodings {
    /// Reads `Accept-Encoding`. A client without that header accepts none.
    pub(crate) fn accepted(headers: &HeaderMap) -> Self {
        if !headers.contains_key(header::ACCEPT_ENCODING) {
            return Self::default();
        }
        let (mut gzip, mut br, mut zstd) = (None, None, None);
        let (mut any, mut identity) = (0, 0);
        for (what, weight) in elements(headers, header::ACCEPT_ENCODING) {
            let is = |name| what.eq_ignore_ascii_case(name);
            if is("gzip") || is("x-gzip") {
                gzip = Some(weight);
            } else if is("br") {
                br = Some(weight);
            } else if is("zstd") {
                zstd = Some(weight);
            } else if is("identity") {
                identity = weight;
            } else if what == "*" {
                any = weight;
            }
        }
        let [gzip, br, zstd] = [gzip, br, zstd].map(|weight| weight.unwrap_or(any));
        Encodings { gzip, br, zstd, identity }
    }

    /// Accepted encodings: first by the client's weight, then the smaller result.
    pub(crate) fn by_preference(self) -> impl Iterator<Item = Encoding> {
        let mut all =
            [(self.br, Encoding::Br), (self.zstd, Encoding::Zstd), (self.gzip, Encoding::Gzip)];
        all.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        all.into_iter()
            .filter(move |(weight, _)| *weight > 0 && *weight >= self.identity)
            .map(|(_, encoding)| encoding)
    }
}

/// The media type among `offered` that `Accept` prefers. Without the header, or if none fits, it is the first one, as
/// RFC 9110 (15.5.7) allows: a representation is more useful than a 406.
pub(crate) fn media_type<'a>(headers: &HeaderMap, offered: &[&'a str]) -> &'a str {
    let mut best = (0, offered[0]);
    if !headers.contains_key(header::ACCEPT) {
        return best.1;
    }
    for offer in offered {
        let family = &offer[..=offer.find('/').unwrap_or(0)];
        // The most specific range that matches decides.
        let mut weight = (0, 0);
        for (range, q) in elements(headers, header::ACCEPT) {
            let rank = if range.eq_ignore_ascii_case(offer) {
                3
            } else if range.strip_suffix('*').is_some_and(|f| f.eq_ignore_ascii_case(family)) {
                2
            } else if range == "*/*" {
                1
            } else {
                continue;
            };
            if rank > weight.0 {
                weight = (rank, q);
            }
        }
        if weight.1 > best.0 {
            best = (weight.1, offer);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn encodings(value: &'static str) -> Vec<Encoding> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
        Encodings::accepted(&headers).by_preference().collect()
    }

    #[test]
    fn encodings_follow_the_weights_of_the_client() {
        assert_eq!(
            encodings("gzip, deflate, br, zstd"),
            [Encoding::Br, Encoding::Zstd, Encoding::Gzip]
        );
        assert_eq!(encodings("gzip;q=1.0, br;q=0.5"), [Encoding::Gzip, Encoding::Br]);
        assert_eq!(encodings("br;q=0, *"), [Encoding::Zstd, Encoding::Gzip]);
        assert_eq!(encodings("identity"), []);
        assert_eq!(encodings("gzip;q=0.5, identity;q=1"), []);
        assert_eq!(encodings("gzip;q=0.5, identity;q=0.5"), [Encoding::Gzip]);
        assert_eq!(encodings("gzip, identity;q=0"), [Encoding::Gzip]);
        assert_eq!(encodings("gzip;q=7, br;q=x"), [Encoding::Br, Encoding::Gzip]);
        assert_eq!(Encodings::accepted(&HeaderMap::new()).by_preference().count(), 0);
    }

    #[test]
    fn media_types_follow_the_most_specific_range() {
        const OFFERED: &[&str] =
            &["application/json", "application/geo+json", "application/gpx+xml"];
        let pick = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(value));
            media_type(&headers, OFFERED)
        };
        assert_eq!(pick("application/gpx+xml"), "application/gpx+xml");
        assert_eq!(pick("*/*"), "application/json");
        assert_eq!(pick("application/*;q=0.5, application/geo+json"), "application/geo+json");
        assert_eq!(pick("application/json;q=0, */*;q=0.1"), "application/geo+json");
        assert_eq!(pick("text/html"), "application/json");
        assert_eq!(pick(";;;,,,q="), "application/json");
        assert_eq!(media_type(&HeaderMap::new(), OFFERED), "application/json");
    }
}
