//! Settings of the home page.

use super::keys::{Key, key, switch};
use sha2::{Digest as _, Sha256};

/// `home.*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HomeSettings {
    /// Whether there is a page at `/`.
    pub page: bool,
    /// What opens the operator's view; `None` = there is no view.
    pub operator_token: Option<OperatorToken>,
}

/// The digest of a token. It prints as nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct OperatorToken([u8; 32]);

impl std::fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OperatorToken(hidden)")
    }
}

impl OperatorToken {
    /// 32 to 256 visible ASCII characters: what a header can carry, and too many to guess.
    fn parse(text: &str) -> Option<Self> {
        let is_long = (32..=256).contains(&text.len());
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        (is_long && is_visible).then(|| Self(Sha256::digest(text).into()))
    }

    /// Whether `text` is the token, in a time that says nothing of it.
    pub(crate) fn is(&self, text: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(text).into();
        self.0.iter().zip(given).fold(0, |differing, (own, given)| differing | (own ^ given)) == 0
    }
}

pub(super) const KEYS: &[Key] = &[
    key!(
        "home.page" = "on",
        "on or off",
        "Page at / with trails, markets, request rate and latency; off = 404",
        |s, v| s.home.page = switch(v)?
    ),
    Key {
        secret: true,
        ..key!(
            "home.operator_token" = "",
            "32 to 256 visible ASCII characters without spaces (openssl rand -hex 32)",
            "Token for the operator's view at /home/operator: rates, latency, cache, guard, store, last errors; unset = 404. Set it in a file or the environment: other users can see flags",
            |s, v| s.home.operator_token = match v {
                "" => None,
                token => Some(OperatorToken::parse(token).ok_or_else(String::new)?),
            }
        )
    },
];

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
