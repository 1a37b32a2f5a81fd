//! CSS selectors of cascadia. As in k6, any other selector matches nothing.

use std::fmt;

use cssparser::Parser as Input;
use html5ever::Namespace;
use selectors::attr::{AttrSelectorOperation, CaseSensitivity, NamespaceConstraint};
use selectors::bloom::BloomFilter;
use selectors::context::{
    MatchingContext, MatchingForInvalidation, MatchingMode, NeedsSelectorFlags, QuirksMode,
    SelectorCaches,
};
use selectors::matching::{ElementSelectorFlags, matches_selector_list};
use selectors::parser::{ParseRelative, SelectorList};
use selectors::{Element as _, OpaqueElement};

use super::language::{Language, Name, PseudoClass, PseudoElement, Text};
use super::tree::{Data, Document, Element};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector(pub(super) SelectorList<Language>);

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SelectorError {
    /// Invalid in k6 too.
    Invalid,
    /// A feature of cascadia that is missing here.
    Unsupported(&'static str),
}

impl Selector {
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        let parse = |text: &str| {
            let list = SelectorList::parse(&Language, &mut Input::new(text), ParseRelative::No);
            list.map(Self)
        };
        parse(text).or_else(|_| parse(&without_unequal(text))).map_err(|_| {
            // Selectors of cascadia that the parser refuses.
            let lower = text.to_ascii_lowercase();
            let known = [":matches(", ":matchesown(", "#="];
            known
                .into_iter()
                .find(|part| lower.contains(part))
                .map_or(SelectorError::Invalid, SelectorError::Unsupported)
        })
    }

    /// The nodes among `nodes` that match.
    pub(crate) fn filter(
        &self,
        document: &Document,
        nodes: impl IntoIterator<Item = usize>,
    ) -> Vec<usize> {
        let mut caches = SelectorCaches::default();
        let mut matches = |at: &usize| {
            document.element(*at).is_some() && {
                let mut context = MatchingContext::new(
                    MatchingMode::Normal,
                    None,
                    &mut caches,
                    QuirksMode::NoQuirks,
                    NeedsSelectorFlags::No,
                    MatchingForInvalidation::No,
                );
                matches_selector_list(&self.0, &Candidate { document, at: *at }, &mut context)
            }
        };
        nodes.into_iter().filter(|at| matches(at)).collect()
    }
}

/// Replaces `[name!=value]` by `:not([name=value])`.
fn without_unequal(text: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some((before, value)) = rest.split_once("!=") {
        let Some(open) = before.rfind('[') else { break };
        let end = match value.trim_start().chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let begin = value.find(quote).map_or(0, |at| at + 1);
                let closed = value[begin..].find(quote).map(|at| begin + at);
                closed.and_then(|at| value[at..].find(']').map(|more| at + more))
            }
            _ => value.find(']'),
        };
        let Some(end) = end else { break };
        parts.push(format!("{}:not([{}={}])", &before[..open], &before[open + 1..], &value[..end]));
        rest = &value[end + 1..];
    }
    parts.concat() + rest
}

/// An element during matching.
#[derive(Clone)]
struct Candidate<'d> {
    document: &'d Document,
    at: usize,
}

impl fmt::Debug for Candidate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.fmt(f)
    }
}

impl Candidate<'_> {
    fn at(&self, at: usize) -> Option<Self> {
        self.document.element(at).map(|_| Self { document: self.document, at })
    }

    fn element(&self) -> Option<&Element> {
        self.document.element(self.at)
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.element()?.attribute(name)
    }

    fn name(&self) -> &str {
        self.element().map_or("", |element| &element.name.local)
    }

    fn own_text(&self) -> String {
        let texts =
            self.document.children(self.at).filter_map(|at| match &self.document.nodes[at].data {
                Data::Text(text) => Some(&**text),
                _ => None,
            });
        texts.collect()
    }

    /// True inside a disabled fieldset, except in its first legend.
    fn is_in_disabled_fieldset(&self) -> bool {
        let mut inside = self.clone();
        while let Some(parent) = inside.parent_element() {
            let is_legend = |place: &Self| place.name() == "legend";
            if parent.name() == "fieldset"
                && parent.attribute("disabled").is_some()
                && (!is_legend(&inside) || inside.previous().any(|before| is_legend(&before)))
            {
                return true;
            }
            inside = parent;
        }
        false
    }

    fn previous(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.prev_sibling_element(), Self::prev_sibling_element)
    }

    /// True if it or an element around it is declared to be in this language.
    fn is_in_language(&self, wanted: &str) -> bool {
        let parents = std::iter::successors(Some(self.clone()), Self::parent_element);
        parents.into_iter().any(|place| {
            let rest = place.attribute("lang").and_then(|lang| lang.strip_prefix(wanted));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
    }

    fn is_enabled(&self) -> bool {
        match self.name() {
            "a" | "area" | "link" => self.attribute("href").is_some(),
            _ => self.disabled() == Some(false),
        }
    }

    /// `None` for elements that are never disabled.
    fn disabled(&self) -> Option<bool> {
        let says_so = self.attribute("disabled").is_some();
        match self.name() {
            "optgroup" | "menuitem" | "fieldset" => Some(says_so),
            "button" | "input" | "select" | "textarea" | "option" => {
                Some(says_so || self.is_in_disabled_fieldset())
            }
            _ => None,
        }
    }

    fn is_checked(&self) -> bool {
        match self.name() {
            "input" | "menuitem" => {
                let kind = self.attribute("type").unwrap_or_default().to_ascii_lowercase();
                matches!(&*kind, "checkbox" | "radio") && self.attribute("checked").is_some()
            }
            "option" => self.attribute("selected").is_some(),
            _ => false,
        }
    }
}

impl selectors::Element for Candidate<'_> {
    type Impl = Language;

    fn opaque(&self) -> OpaqueElement {
        OpaqueElement::new(&self.document.nodes[self.at])
    }

    fn parent_element(&self) -> Option<Self> {
        self.at(self.document.nodes[self.at].parent?)
    }

    fn prev_sibling_element(&self) -> Option<Self> {
        let before = |at: &usize| self.document.nodes[*at].previous;
        std::iter::successors(before(&self.at), before).find_map(|at| self.at(at))
    }

    fn next_sibling_element(&self) -> Option<Self> {
        let after = |at: &usize| self.document.next(*at);
        std::iter::successors(after(&self.at), after).find_map(|at| self.at(at))
    }

    fn first_element_child(&self) -> Option<Self> {
        self.document.children(self.at).find_map(|at| self.at(at))
    }

    /// `false` makes names and values, also of `type`, compared as they are. Names are in lower case already.
    fn is_html_element_in_html_document(&self) -> bool {
        false
    }

    fn has_local_name(&self, name: &str) -> bool {
        self.name() == name
    }

    fn has_namespace(&self, namespace: &Namespace) -> bool {
        self.element().is_some_and(|element| element.name.ns == *namespace)
    }

    fn is_same_type(&self, other: &Self) -> bool {
        self.name() == other.name()
    }

    fn attr_matches(
        &self,
        _namespace: &NamespaceConstraint<&Namespace>,
        name: &Name,
        operation: &AttrSelectorOperation<&Text>,
    ) -> bool {
        let attributes = self.element().map_or(&[][..], |element| &element.attributes);
        attributes.iter().any(|attribute| {
            *attribute.name.local == *name.0 && operation.eval_str(&attribute.value)
        })
    }

    fn match_non_ts_pseudo_class(
        &self,
        class: &PseudoClass,
        _context: &mut MatchingContext<'_, Language>,
    ) -> bool {
        let any =
            |list: &Selector, nodes: Vec<usize>| !list.filter(self.document, nodes).is_empty();
        match class {
            PseudoClass::Never => false,
            PseudoClass::Input => {
                matches!(self.name(), "input" | "select" | "textarea" | "button")
            }
            PseudoClass::Link => {
                matches!(self.name(), "a" | "area" | "link") && self.attribute("href").is_some()
            }
            PseudoClass::Enabled => self.is_enabled(),
            PseudoClass::Disabled => self.disabled() == Some(true),
            PseudoClass::Checked => self.is_checked(),
            PseudoClass::Contains(text) => {
                self.document.text(self.at).to_lowercase().contains(text)
            }
            PseudoClass::ContainsOwn(text) => self.own_text().to_lowercase().contains(text),
            PseudoClass::Lang(wanted) => self.is_in_language(wanted),
            PseudoClass::Has(list) => {
                any(list, (self.at + 1..self.document.nodes[self.at].end).collect())
            }
            PseudoClass::HasChild(list) => any(list, self.document.children(self.at).collect()),
        }
    }

    fn has_id(&self, id: &Text, case: CaseSensitivity) -> bool {
        self.attribute("id").is_some_and(|known| case.eq(known.as_bytes(), id.0.as_bytes()))
    }

    fn has_class(&self, name: &Text, case: CaseSensitivity) -> bool {
        let classes = self.attribute("class").unwrap_or_default().split_ascii_whitespace();
        classes.into_iter().any(|class| case.eq(class.as_bytes(), name.0.as_bytes()))
    }

    fn is_empty(&self) -> bool {
        self.document.children(self.at).all(|at| match &self.document.nodes[at].data {
            Data::Element(_) => false,
            Data::Text(text) => text.trim().is_empty(),
            _ => true,
        })
    }

    fn is_root(&self) -> bool {
        self.parent_element().is_none()
    }

    fn is_link(&self) -> bool {
        false
    }

    // The following features do not occur in parsed pages.

    fn parent_node_is_shadow_root(&self) -> bool {
        false
    }

    fn containing_shadow_host(&self) -> Option<Self> {
        None
    }

    fn is_pseudo_element(&self) -> bool {
        false
    }

    fn match_pseudo_element(
        &self,
        element: &PseudoElement,
        _context: &mut MatchingContext<'_, Language>,
    ) -> bool {
        match *element {}
    }

    fn apply_selector_flags(&self, _flags: ElementSelectorFlags) {}

    fn is_html_slot_element(&self) -> bool {
        false
    }

    fn has_custom_state(&self, _name: &Text) -> bool {
        false
    }

    fn imported_part(&self, _name: &Text) -> Option<Text> {
        None
    }

    fn is_part(&self, _name: &Text) -> bool {
        false
    }

    fn add_element_unique_hashes(&self, _filter: &mut BloomFilter) -> bool {
        false
    }
}
