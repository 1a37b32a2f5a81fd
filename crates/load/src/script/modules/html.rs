//! `k6/html`, and the methods of responses that need it. The library is made when a script first uses it.

use rquickjs::class::Trace;
use rquickjs::function::{Opt, This};
use rquickjs::{Class, Ctx, Exception, Function, JsLifetime, Object, Result, Value};

use super::response::Response;
use super::{define, http, kept_library};
use crate::html::{Data, Document, Selector, SelectorError};
use crate::script::compiled;
use crate::script::user::User;

/// Selections, as goquery has them; forms and links of responses.
const LIBRARY: &str = include_str!("html.js");

/// Properties of elements.
const ELEMENTS: &str = include_str!("html_elements.js");

/// Hidden global with the library of a virtual user.
const LOADED: &str = "__html__";

pub(super) const MEMBERS: &str = "parseHTML";

pub(super) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let module = Object::new(ctx.clone())?;
    module.set("parseHTML", library(ctx)?.get::<_, Value<'js>>("parseHTML")?)?;
    Ok(module)
}

/// Methods of responses that need the library.
const OF_RESPONSES: [&str; 3] = ["html", "submitForm", "clickLink"];

pub(super) fn define_on_responses<'js>(prototype: &Object<'js>) -> Result<()> {
    for name in OF_RESPONSES {
        let call = move |ctx: Ctx<'js>,
                         this: This<Class<'js, Response>>,
                         argument: Opt<Value<'js>>|
              -> Result<Value<'js>> {
            let method: Function<'js> = library(&ctx)?.get(name)?;
            match argument.0 {
                Some(argument) => method.call((this.0, argument)),
                None => method.call((this.0,)),
            }
        };
        define(prototype, name, call)?;
    }
    Ok(())
}

fn library<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    kept_library(ctx, LOADED, ("html.js", LIBRARY), |native| {
        define(native, "parse", parse)?;
        define(native, "find", find)?;
        define(native, "filter", filter)?;
        define(native, "type", node_type)?;
        define(native, "name", name)?;
        define(native, "namespace", namespace)?;
        define(native, "parent", |page: PageRef<'js>, at: usize| page.borrow().0.nodes[at].parent)?;
        define(native, "next", |page: PageRef<'js>, at: usize| page.borrow().0.next(at))?;
        define(native, "previous", |page: PageRef<'js>, at: usize| {
            page.borrow().0.nodes[at].previous
        })?;
        define(native, "children", |page: PageRef<'js>, at: usize| -> Vec<usize> {
            page.borrow().0.children(at).collect()
        })?;
        define(native, "contains", contains)?;
        define(native, "text", |page: PageRef<'js>, at: usize| page.borrow().0.text(at))?;
        define(native, "html", |page: PageRef<'js>, at: usize| page.borrow().0.inner_html(at))?;
        define(native, "attribute", attribute)?;
        define(native, "attributes", attributes)?;
        define(native, "request", http::request)?;
        define(native, "elements", elements)
    })
}

fn elements<'js>(ctx: Ctx<'js>) -> Result<Function<'js>> {
    compiled::library(&ctx, "html_elements.js", ELEMENTS)
}

/// A page held by a script. Its nodes are numbers.
#[derive(JsLifetime, Trace)]
struct Page(#[qjs(skip_trace)] Document);

script_class!(Page, "Page", |_| Ok(()));

type PageRef<'js> = Class<'js, Page>;

fn parse(ctx: Ctx<'_>, html: String) -> Result<Class<'_, Page>> {
    match Document::parse(&html) {
        Ok(document) => Class::instance(ctx, Page(document)),
        Err(error) => Err(Exception::throw_message(&ctx, &error.to_string())),
    }
}

/// `None` if the selector is invalid.
fn selector(ctx: &Ctx<'_>, text: &str) -> Result<Option<Selector>> {
    match Selector::parse(text) {
        Ok(selector) => Ok(Some(selector)),
        Err(SelectorError::Invalid) => Ok(None),
        Err(SelectorError::Unsupported(part)) => {
            Err(User::of(ctx).refuse_feature(ctx, &format!("the selector {part}")))
        }
    }
}

/// The descendants of a node that match.
fn find<'js>(ctx: Ctx<'js>, page: PageRef<'js>, at: usize, text: String) -> Result<Vec<usize>> {
    let page = &page.borrow().0;
    let Some(selector) = selector(&ctx, &text)? else { return Ok(Vec::new()) };
    Ok(selector.filter(page, at + 1..page.nodes[at].end))
}

/// The nodes among `nodes` that match.
fn filter<'js>(
    ctx: Ctx<'js>,
    page: PageRef<'js>,
    nodes: Vec<usize>,
    text: String,
) -> Result<Vec<usize>> {
    let page = &page.borrow().0;
    Ok(selector(&ctx, &text)?.map_or_else(Vec::new, |selector| selector.filter(page, nodes)))
}

/// The type of a node, by the numbers of DOM.
fn node_type(page: PageRef<'_>, at: usize) -> u8 {
    match page.borrow().0.nodes[at].data {
        Data::Element(_) => 1,
        Data::Text(_) => 3,
        Data::Comment(_) => 8,
        Data::Document => 9,
        Data::Doctype { .. } => 10,
    }
}

fn name(page: PageRef<'_>, at: usize) -> String {
    match &page.borrow().0.nodes[at].data {
        Data::Element(element) => element.name.local.to_string(),
        Data::Text(_) => "#text".to_owned(),
        Data::Comment(_) => "#comment".to_owned(),
        Data::Document => "#document".to_owned(),
        Data::Doctype { name, .. } => name.to_string(),
    }
}

/// The namespace URL of an element.
fn namespace(page: PageRef<'_>, at: usize) -> String {
    let page = &page.borrow().0;
    page.element(at).map_or(&html5ever::ns!(html), |element| &element.name.ns).to_string()
}

fn contains(page: PageRef<'_>, at: usize, other: usize) -> bool {
    other > at && other < page.borrow().0.nodes[at].end
}

fn attribute(page: PageRef<'_>, at: usize, name: String) -> Option<String> {
    page.borrow().0.element(at)?.attribute(&name).map(str::to_owned)
}

/// Name, value and namespace of each attribute.
fn attributes(page: PageRef<'_>, at: usize) -> Vec<Vec<String>> {
    let page = &page.borrow().0;
    let attributes = page.element(at).map_or(&[][..], |element| &element.attributes);
    let parts = attributes.iter().map(|attribute| {
        let namespace = attribute.name.prefix.as_deref().unwrap_or_default();
        vec![attribute.name.local.to_string(), attribute.value.to_string(), namespace.to_owned()]
    });
    parts.collect()
}
