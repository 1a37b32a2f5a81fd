//! The table of settings: each key is a row and a field of its section's struct.

use super::{ConfigError, Settings, Sources};
use std::sync::LazyLock;

/// One setting.
#[derive(Clone, Debug)]
pub struct Key {
    /// Dotted name, as in `madang.toml` and `--set`.
    pub name: &'static str,
    /// Default, as written in a file.
    pub default: &'static str,
    /// Accepted values, with units.
    pub accepts: String,
    /// Meaning, also of the unset or zero value.
    pub meaning: &'static str,
    /// True if `madang config` and errors hide the value.
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

/// All settings, in the order of `madang config`.
pub static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let mut all = Vec::new();
    Settings::keys(&mut all);
    all
});

/// A struct made by [`settings!`].
pub(super) trait Section: Sized {
    fn keys(all: &mut Vec<Key>);

    fn read(from: &Sources) -> Result<Self, ConfigError>;
}

/// Makes the struct of a section. A row is a field: its type, `secret` if it is hidden, the key, its default, its
/// [kind](super::value::Kind), its meaning. Nested sections follow, each with its documentation.
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
