//! The table of settings: one row a key, which is a field of its section's struct.

use super::{ConfigError, Settings, Sources};
use std::sync::LazyLock;

/// One setting.
#[derive(Clone, Debug)]
pub struct Key {
    /// Dotted name, as in `madang.toml` and `--set`.
    pub name: &'static str,
    /// Default, in the form a person would write.
    pub default: &'static str,
    /// What is accepted, with units.
    pub accepts: String,
    /// What it means, and what the unset or zero value does.
    pub meaning: &'static str,
    /// Whether the value is never printed, neither by `madang config` nor in an error.
    pub secret: bool,
}

impl Key {
    /// The environment variable of this key: `tracks.detail` is `MADANG_TRACKS_DETAIL`.
    pub fn variable(&self) -> String {
        format!("MADANG_{}", self.name.to_uppercase().replace('.', "_"))
    }

    /// The key of this name.
    pub fn find(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }
}

/// Every setting there is, in the order of `madang config`.
pub static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let mut all = Vec::new();
    Settings::keys(&mut all);
    all
});

/// A section: a struct that [`settings!`] makes.
pub(super) trait Section: Sized {
    fn keys(all: &mut Vec<Key>);
    /// Parses its effective values.
    fn read(from: &Sources) -> Result<Self, ConfigError>;
}

/// Makes the struct of a section. A row is a field: its type, `secret` if it is never printed, the key, its default,
/// its [kind](super::value::Kind), what it means. Sections within it follow, each with its documentation.
macro_rules! settings {
    ($(#[$about:meta])* $vis:vis struct $Section:ident {
        $($field:ident: $Type:ty = $($secret:ident)? $key:literal, $default:literal, $kind:expr,
            $meaning:literal;)*
        $($(#[$says:meta])+ $part:ident: $Part:ty;)*
    }) => {
        $(#[$about])*
        $vis struct $Section {
            $(#[doc = concat!("`", $key, "`. ", $meaning)] pub $field: $Type,)*
            $($(#[$says])+ pub $part: $Part,)*
        }

        impl $crate::config::keys::Section for $Section {
            fn keys(all: &mut Vec<$crate::config::Key>) {
                all.extend([$($crate::config::Key {
                    name: $key,
                    default: $default,
                    accepts: { let kind: $crate::config::value::Kind<$Type> = $kind; kind.accepts },
                    meaning: $meaning,
                    secret: [$(stringify!($secret),)? ""].contains(&"secret"),
                },)*]);
                $(<$Part as $crate::config::keys::Section>::keys(all);)*
            }

            fn read(from: &$crate::config::Sources) -> Result<Self, $crate::config::ConfigError> {
                Ok(Self {
                    $($field: from.parsed($key, &$kind)?,)*
                    $($part: <$Part as $crate::config::keys::Section>::read(from)?,)*
                })
            }
        }
    };
}
pub(super) use settings;
