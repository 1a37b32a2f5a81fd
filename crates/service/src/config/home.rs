//! Settings of the home page.

use super::keys::settings;
use super::value::{optional, switch};
use sha2::{Digest as _, Sha256};

settings! {
    /// `home.*`: the pages for a browser.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HomeSettings {
        page: bool = "home.page", "on", switch(),
            "Page at / with trails, markets, request rate and latency; off = 404";
        operator_token: Option<OperatorToken> = secret "home.operator_token", "",
            optional("32 to 256 visible ASCII characters without spaces (openssl rand -hex 32)",
                OperatorToken::parse),
            "Token for the operator's view at /home/operator: rates, latency, cache, guard, store, last errors; unset = 404. Set it in a file or the environment: other users can see flags";
    }
}

/// The digest of a token.
#[derive(Clone, PartialEq, Eq)]
pub struct OperatorToken([u8; 32]);

crate::opaque_debug!(OperatorToken);

impl OperatorToken {
    /// Visible ASCII characters, which a header can carry, and too many to guess.
    fn parse(text: &str) -> Option<Self> {
        let is_long = (32..=256).contains(&text.len());
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        (is_long && is_visible).then(|| Self(Sha256::digest(text).into()))
    }

    /// Compares in constant time.
    pub(crate) fn is(&self, text: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(text).into();
        self.0.iter().zip(given).fold(0, |differing, (own, given)| differing | (own ^ given)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_visible_and_only_itself() {
        let text = "0123456789abcdef0123456789abcdef";
        let token = OperatorToken::parse(text).unwrap();
        assert!(token.is(text) && !token.is(&text[1..]) && !token.is(&text.to_uppercase()));
        assert_eq!(format!("{token:?}"), "OperatorToken(hidden)");
        for wrong in [&text[1..], &format!("{text} "), &"가".repeat(32), &"x".repeat(257)] {
            assert!(OperatorToken::parse(wrong).is_none(), "{wrong}");
        }
    }
}
