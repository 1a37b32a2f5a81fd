//! The selector language: names in lower case, cascadia's pseudo-classes, no namespaces and no pseudo-elements.

use std::borrow::Borrow;
use std::fmt;

use cssparser::{CowRcStr, Parser as Input, ToCss};
use html5ever::Namespace;
use precomputed_hash::PrecomputedHash;
use selectors::SelectorImpl;
use selectors::parser::{ParseRelative, Parser, SelectorList, SelectorParseErrorKind};

use super::select::Selector;

type ParseError = cssparser::ParseError<SelectorParseErrorKind>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Language;

impl SelectorImpl for Language {
    type ExtraMatchingData<'a> = ();
    type AttrValue = Text;
    type Identifier = Text;
    type LocalName = Name;
    type NamespaceUrl = Namespace;
    type NamespacePrefix = Text;
    type BorrowedLocalName = str;
    type BorrowedNamespaceUrl = Namespace;
    type NonTSPseudoClass = PseudoClass;
    type PseudoElement = PseudoElement;
}

impl<'i> Parser<'i> for Language {
    type Impl = Self;
    type Error = SelectorParseErrorKind;

    fn parse_non_ts_pseudo_class(&self, name: CowRcStr<'i>) -> Result<PseudoClass, ParseError> {
        Ok(match &*name.to_ascii_lowercase() {
            "input" => PseudoClass::Input,
            "link" => PseudoClass::Link,
            "enabled" => PseudoClass::Enabled,
            "disabled" => PseudoClass::Disabled,
            "checked" => PseudoClass::Checked,
            "visited" | "hover" | "active" | "focus" | "target" => PseudoClass::Never,
            _ => return Err(unknown()),
        })
    }

    fn parse_non_ts_functional_pseudo_class(
        &self,
        name: CowRcStr<'i>,
        arguments: &mut Input<'i>,
        _after_part: bool,
    ) -> Result<PseudoClass, ParseError> {
        let list = |arguments: &mut Input<'i>| {
            SelectorList::parse(self, arguments, ParseRelative::No)
                .map(|list| Box::new(Selector(list)))
        };
        let text = |arguments: &mut Input<'i>| -> Result<String, ParseError> {
            Ok(arguments.expect_ident_or_string()?.to_lowercase())
        };
        Ok(match &*name.to_ascii_lowercase() {
            "has" => PseudoClass::Has(list(arguments)?),
            "haschild" => PseudoClass::HasChild(list(arguments)?),
            "contains" => PseudoClass::Contains(text(arguments)?),
            "lang" => PseudoClass::Lang(text(arguments)?),
            "containsown" => PseudoClass::ContainsOwn(text(arguments)?),
            _ => return Err(unknown()),
        })
    }
}

fn unknown() -> ParseError {
    ParseError::custom(SelectorParseErrorKind::UnsupportedPseudoClassOrElement)
}

/// A value, an id or a class.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Text(pub(super) String);

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl ToCss for Text {
    fn to_css<W: fmt::Write>(&self, to: &mut W) -> fmt::Result {
        cssparser::serialize_string(&self.0, to)
    }
}

impl PrecomputedHash for Text {
    fn precomputed_hash(&self) -> u32 {
        0 // Used by a filter of ancestors only, which is disabled.
    }
}

/// The name of an element or attribute, in lower case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Name(pub(super) String);

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self(name.to_ascii_lowercase())
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl ToCss for Name {
    fn to_css<W: fmt::Write>(&self, to: &mut W) -> fmt::Result {
        cssparser::serialize_identifier(&self.0, to)
    }
}

impl PrecomputedHash for Name {
    fn precomputed_hash(&self) -> u32 {
        0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PseudoClass {
    Input,
    Link,
    Enabled,
    Disabled,
    Checked,
    Contains(String),
    ContainsOwn(String),
    Lang(String),
    Has(Box<Selector>),
    HasChild(Box<Selector>),
    /// Never matches: applies only to a displayed page.
    Never,
}

impl ToCss for PseudoClass {
    fn to_css<W: fmt::Write>(&self, to: &mut W) -> fmt::Result {
        write!(to, ":{self:?}")
    }
}

impl selectors::parser::NonTSPseudoClass for PseudoClass {
    fn is_active_or_hover(&self) -> bool {
        false
    }

    fn is_user_action_state(&self) -> bool {
        false
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PseudoElement {}

impl ToCss for PseudoElement {
    fn to_css<W: fmt::Write>(&self, _to: &mut W) -> fmt::Result {
        match *self {}
    }
}

impl selectors::parser::PseudoElement for PseudoElement {}
