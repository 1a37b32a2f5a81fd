//! A parsed page, its nodes in document order.

use std::cell::{Cell, Ref, RefCell};

use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::{ElementFlags, NodeOrText, QuirksMode, TreeBuilderOpts, TreeSink};
use html5ever::{Attribute, ParseOpts, QualName};

/// Depth limit of elements, as in Go: the time to parse a page grows with its square.
const MAX_DEPTH: usize = 512;

/// Parts in which a page is parsed: the limits are checked after each.
const PART_BYTES: usize = 4 << 10;

/// Limit exceeded by a page.
#[derive(Debug, thiserror::Error)]
#[error("html: {0}")]
pub(crate) struct TooMuch(&'static str);

pub(crate) enum Data {
    Document,
    Doctype { name: StrTendril, public: StrTendril, system: StrTendril },
    Text(StrTendril),
    Comment(StrTendril),
    Element(Element),
}

pub(crate) struct Element {
    pub(crate) name: QualName,
    pub(crate) attributes: Vec<Attribute>,
}

impl Element {
    /// The value of the first attribute of this name in any namespace.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|attribute| &*attribute.name.local == name);
        found.map(|attribute| &*attribute.value)
    }
}

pub(crate) struct Node {
    pub(crate) data: Data,
    pub(crate) parent: Option<usize>,
    pub(crate) previous: Option<usize>,
    /// Index of the first node after this one and its descendants.
    pub(crate) end: usize,
}

/// A page. Nodes are in preorder, the document itself first: the descendants of a node follow it up to its `end`.
pub(crate) struct Document {
    pub(crate) nodes: Vec<Node>,
}

impl Document {
    /// Parses a page as a browser with scripts does.
    pub(crate) fn parse(html: &str) -> Result<Self, TooMuch> {
        let options = ParseOpts {
            tree_builder: TreeBuilderOpts { scripting_enabled: true, ..Default::default() },
            ..Default::default()
        };
        let mut parser = html5ever::parse_document(Builder::new(html.len()), options);
        let mut rest = html;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
            parser.process(part.into());
            rest = after;
            if let Some(reason) = parser.tokenizer.sink.sink.too_much.get() {
                return Err(TooMuch(reason));
            }
        }
        Ok(parser.finish())
    }

    pub(crate) fn element(&self, at: usize) -> Option<&Element> {
        match &self.nodes[at].data {
            Data::Element(element) => Some(element),
            _ => None,
        }
    }

    pub(crate) fn children(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.nodes[at].end;
        let inside = move |child: usize| (child < end).then_some(child);
        std::iter::successors(inside(at + 1), move |child| inside(self.nodes[*child].end))
    }

    /// The next sibling.
    pub(crate) fn next(&self, at: usize) -> Option<usize> {
        let next = self.nodes[at].end;
        self.nodes[at].parent.filter(|parent| next < self.nodes[*parent].end).map(|_| next)
    }

    /// The text of a node and its descendants.
    pub(crate) fn text(&self, at: usize) -> String {
        let texts = self.nodes[at..self.nodes[at].end].iter().filter_map(|node| match &node.data {
            Data::Text(text) => Some(&**text),
            _ => None,
        });
        texts.collect()
    }
}

/// Elements that the parser reopens where they were not closed.
const FORMATTING: [&str; 14] = [
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
];

const NONE: usize = usize::MAX;

/// A node during parsing, when nodes move.
struct Growing {
    data: Data,
    is_annotation_point: bool,
    depth: usize,
    parent: usize,
    first: usize,
    last: usize,
    previous: usize,
    next: usize,
}

impl Growing {
    fn new(data: Data) -> Self {
        let (is_annotation_point, depth) = (false, 0);
        let [parent, first, last, previous, next] = [NONE; 5];
        Self { data, is_annotation_point, depth, parent, first, last, previous, next }
    }
}

/// Builds the page for html5ever.
struct Builder {
    nodes: RefCell<Vec<Growing>>,
    max_nodes: usize,
    too_much: Cell<Option<&'static str>>,
}

impl Builder {
    fn new(bytes: usize) -> Self {
        let nodes = RefCell::new(vec![Growing::new(Data::Document)]);
        // An unclosed element can be made again for every few bytes.
        let max_nodes = 1000 + 2 * bytes;
        Self { nodes, max_nodes, too_much: Cell::new(None) }
    }

    fn create(&self, data: Data) -> usize {
        let mut nodes = self.nodes.borrow_mut();
        if nodes.len() >= self.max_nodes {
            self.too_much.set(Some("more nodes than the text of the page can mean"));
        }
        nodes.push(Growing::new(data));
        nodes.len() - 1
    }

    /// Inserts a node without parent into `parent`, before `next` or at the end.
    fn attach(&self, parent: usize, next: usize, child: usize) {
        let nodes = &mut *self.nodes.borrow_mut();
        let previous = last_before(nodes, parent, next);
        (nodes[child].parent, nodes[child].previous, nodes[child].next) = (parent, previous, next);
        nodes[child].depth = nodes[parent].depth + 1;
        if nodes[child].depth > MAX_DEPTH && matches!(nodes[child].data, Data::Element(_)) {
            self.too_much.set(Some("open stack of elements exceeds 512 nodes"));
        }
        match previous {
            NONE => nodes[parent].first = child,
            _ => nodes[previous].next = child,
        }
        match next {
            NONE => nodes[parent].last = child,
            _ => nodes[next].previous = child,
        }
    }

    fn detach(&self, child: usize) {
        let nodes = &mut *self.nodes.borrow_mut();
        let Growing { parent, previous, next, .. } = nodes[child];
        if parent == NONE {
            return;
        }
        match previous {
            NONE => nodes[parent].first = next,
            _ => nodes[previous].next = next,
        }
        match next {
            NONE => nodes[parent].last = previous,
            _ => nodes[next].previous = previous,
        }
        (nodes[child].parent, nodes[child].previous, nodes[child].next) = (NONE, NONE, NONE);
    }

    fn insert(&self, parent: usize, next: usize, child: NodeOrText<usize>) {
        let text = match child {
            NodeOrText::AppendNode(child) => {
                self.detach(child);
                return self.attach(parent, next, child);
            }
            NodeOrText::AppendText(text) => text,
        };
        let before = last_before(&self.nodes.borrow(), parent, next);
        if before != NONE
            && let Data::Text(known) = &mut self.nodes.borrow_mut()[before].data
        {
            known.push_tendril(&text);
            return;
        }
        let child = self.create(Data::Text(text));
        self.attach(parent, next, child);
    }
}

/// The child of `parent` before `next`, or the last one.
fn last_before(nodes: &[Growing], parent: usize, next: usize) -> usize {
    if next == NONE { nodes[parent].last } else { nodes[next].previous }
}

impl TreeSink for Builder {
    type Handle = usize;
    type Output = Document;
    type ElemName<'a> = Ref<'a, QualName>;

    fn finish(self) -> Document {
        let mut growing = self.nodes.into_inner();
        let mut nodes: Vec<Node> = Vec::with_capacity(growing.len());
        // Open nodes: their new index, and the old one of the node after them.
        let mut open: Vec<(usize, usize)> = Vec::new();
        let (mut coming, mut previous) = (0, None);
        loop {
            if coming == NONE {
                let Some((at, next)) = open.pop() else { break };
                nodes[at].end = nodes.len();
                (coming, previous) = (next, Some(at));
                continue;
            }
            let node = &mut growing[coming];
            let parent = open.last().map(|(at, _)| *at);
            open.push((nodes.len(), node.next));
            let data = std::mem::replace(&mut node.data, Data::Document);
            nodes.push(Node { data, parent, previous, end: 0 });
            (coming, previous) = (node.first, None);
        }
        Document { nodes }
    }

    fn parse_error(&self, _message: std::borrow::Cow<'static, str>) {}

    fn get_document(&self) -> usize {
        0
    }

    fn elem_name<'a>(&'a self, target: &'a usize) -> Self::ElemName<'a> {
        Ref::map(self.nodes.borrow(), |nodes| match &nodes[*target].data {
            Data::Element(element) => &element.name,
            _ => unreachable!("html5ever asks for names of elements only"),
        })
    }

    fn create_element(
        &self,
        name: QualName,
        attributes: Vec<Attribute>,
        flags: ElementFlags,
    ) -> usize {
        let mut attributes = attributes;
        // As in Go, whose sorted attributes show in its output.
        if name.ns == html5ever::ns!(html) && FORMATTING.contains(&&*name.local) {
            attributes.sort_by(|one, other| one.name.local.cmp(&other.name.local));
        }
        let at = self.create(Data::Element(Element { name, attributes }));
        self.nodes.borrow_mut()[at].is_annotation_point =
            flags.mathml_annotation_xml_integration_point;
        at
    }

    fn create_comment(&self, text: StrTendril) -> usize {
        self.create(Data::Comment(text))
    }

    fn create_pi(&self, _target: StrTendril, data: StrTendril) -> usize {
        self.create(Data::Comment(data))
    }

    fn append(&self, parent: &usize, child: NodeOrText<usize>) {
        self.insert(*parent, NONE, child);
    }

    fn append_based_on_parent_node(
        &self,
        element: &usize,
        previous: &usize,
        child: NodeOrText<usize>,
    ) {
        let parent = self.nodes.borrow()[*element].parent;
        match parent {
            NONE => self.insert(*previous, NONE, child),
            _ => self.insert(parent, *element, child),
        }
    }

    fn append_doctype_to_document(&self, name: StrTendril, public: StrTendril, system: StrTendril) {
        let doctype = self.create(Data::Doctype { name, public, system });
        self.attach(0, NONE, doctype);
    }

    /// As in Go, the contents of a template belong to the page.
    fn get_template_contents(&self, target: &usize) -> usize {
        *target
    }

    fn same_node(&self, one: &usize, other: &usize) -> bool {
        one == other
    }

    fn set_quirks_mode(&self, _mode: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &usize, child: NodeOrText<usize>) {
        let parent = self.nodes.borrow()[*sibling].parent;
        self.insert(parent, *sibling, child);
    }

    fn add_attrs_if_missing(&self, target: &usize, more: Vec<Attribute>) {
        if let Data::Element(element) = &mut self.nodes.borrow_mut()[*target].data {
            for attribute in more {
                if element.attributes.iter().all(|known| known.name != attribute.name) {
                    element.attributes.push(attribute);
                }
            }
        }
    }

    fn remove_from_parent(&self, target: &usize) {
        self.detach(*target);
    }

    fn reparent_children(&self, node: &usize, new_parent: &usize) {
        loop {
            let child = self.nodes.borrow()[*node].first;
            if child == NONE {
                return;
            }
            self.detach(child);
            self.attach(*new_parent, NONE, child);
        }
    }

    fn is_mathml_annotation_xml_integration_point(&self, target: &usize) -> bool {
        self.nodes.borrow()[*target].is_annotation_point
    }
}
