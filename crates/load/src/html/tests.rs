use proptest::prelude::*;

use super::*;

fn parse(html: &str) -> Document {
    Document::parse(html).unwrap()
}

fn found(document: &Document, selector: &str) -> Vec<String> {
    let all = Selector::parse(selector).unwrap().filter(document, 0..document.nodes.len());
    all.into_iter().map(|at| document.text(at)).collect()
}

#[test]
fn nodes_are_linked_in_document_order() {
    let document = parse("<p>a<b>b</b>c</p><!-- d --><p>e");
    let p = Selector::parse("p").unwrap().filter(&document, 0..document.nodes.len());
    let texts: Vec<_> = document.children(p[0]).map(|at| document.text(at)).collect();
    assert_eq!(texts, ["a", "b", "c"]);
    let comment = document.next(p[0]).unwrap();
    assert!(matches!(&document.nodes[comment].data, Data::Comment(text) if &**text == " d "));
    assert_eq!(document.next(comment), Some(p[1]));
    assert_eq!(document.nodes[p[1]].previous, Some(comment));
    assert_eq!(document.next(p[1]), None);
    assert_eq!(document.nodes[p[0]].parent, document.nodes[p[1]].parent);
}

#[test]
fn nodes_that_the_parser_moves_are_where_they_belong() {
    let nested = "<b>1<p>2</b>3</p><template><i>4</i></template>";
    for (page, body) in [
        (
            "<table>x<p>y<tr><td>z</table>",
            "x<p>y</p><table><tbody><tr><td>z</td></tr></tbody></table>",
        ),
        (nested, "<b>1</b><p><b>2</b>3</p><template><i>4</i></template>"),
    ] {
        let html = format!("<html><head></head><body>{body}</body></html>");
        assert_eq!(parse(page).inner_html(0), html);
    }
    assert_eq!(found(&parse(nested), "template i"), ["4"]);
}

#[test]
fn a_page_that_was_made_to_exhaust_its_reader_is_refused() {
    let nested = |depth: usize| Document::parse(&"<div>".repeat(depth));
    assert_eq!(nested(510).unwrap().inner_html(0).matches("</div>").count(), 510);
    for depth in [511, 1_000_000] {
        let error = nested(depth).err().unwrap().to_string();
        assert_eq!(error, "html: open stack of elements exceeds 512 nodes");
    }
    let open: String = (0..400).map(|n| format!("<b a={n}>")).collect();
    let error = Document::parse(&(String::from("<p>") + &open + &"<p>x".repeat(100_000)))
        .err()
        .unwrap()
        .to_string();
    assert_eq!(error, "html: more nodes than the text of the page can mean");
}

#[test]
fn invalid_and_unsupported_selectors_are_distinguished() {
    for invalid in ["", "[", "p:unknown", ">p", "li:is(a)", "p:not(", "[a!=b", "a[b!='c"] {
        assert_eq!(Selector::parse(invalid), Err(SelectorError::Invalid), "{invalid}");
    }
    for (missing, part) in
        [("p:matches(a+)", ":matches("), ("p:matchesOwn(a)", ":matchesown("), ("[a#=(b|c)]", "#=")]
    {
        assert_eq!(Selector::parse(missing), Err(SelectorError::Unsupported(part)), "{missing}");
    }
}

#[test]
fn an_attribute_can_be_any_but_one_value() {
    let document = parse("<i a=1>1</i><i a=2>2</i><i>none</i><i a='x]y'>3</i>");
    assert_eq!(found(&document, "i[a!='1']"), ["2", "none", "3"]);
    assert_eq!(found(&document, "i[a!='x]y'][a != \"1\"]"), ["2", "none"]);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(html in "(<[a-z/!]{1,5} ?[a-z=\"']{0,6}>?|</?(table|tr|p|b|a|svg|template|select|option)>|[a-z &;]{0,4}){0,30}",
                              selector in "[a-z.#\\[\\]=!~^$*:()\"'>+ ,1-9]{0,20}") {
        let document = parse(&html);
        for (at, node) in document.nodes.iter().enumerate() {
            prop_assert!(node.end > at && node.end <= document.nodes.len());
            let children: Vec<_> = document.children(at).collect();
            for (n, child) in children.iter().enumerate() {
                prop_assert_eq!(document.nodes[*child].parent, Some(at));
                prop_assert_eq!(document.nodes[*child].previous, n.checked_sub(1).map(|n| children[n]));
                prop_assert_eq!(document.next(*child), children.get(n + 1).copied());
            }
        }
        if let Ok(selector) = Selector::parse(&selector) {
            selector.filter(&document, 0..document.nodes.len());
        }
        // Rendered pages are parsed to the same page.
        let written = document.inner_html(0);
        let again = parse(&written).inner_html(0);
        prop_assert!(!written.contains("<p") || again.len() < 4 * written.len() + 1000);
    }
}
