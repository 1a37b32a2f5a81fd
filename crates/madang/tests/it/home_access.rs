//! The home page for everybody: small screens, keyboards, weak eyes, no scripts.

use crate::harness::browser::Page;
use crate::harness::{Server, Setup, stores};

fn visit(page: &Page) -> (tempfile::TempDir, Server) {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).start();
    page.open(&format!("http://{}/", server.api));
    page.until(
        "document.getElementById('trail-overview').dataset.levels === 'full high medium low'",
    );
    page.until("document.getElementById('market-status').textContent.trim()");
    (dir, server)
}

#[test]
fn nothing_scrolls_sideways_on_a_phone() {
    if !madang_testing::drill!() {
        return;
    }
    let page = Page::new();
    for (screen, scheme) in
        [(Page::PHONE, "light"), (Page::PHONE, "dark"), (Page::DESKTOP, "light")]
    {
        page.looks(screen, scheme);
        let _running = visit(&page);
        let wide = page
            .value("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(wide, 0, "{screen:?}");
        let beyond = page.value(
            "[...document.querySelectorAll('main *, header *, footer *')]
                .filter((e) => e.getClientRects().length > 0 && !e.closest('.unseen, svg'))
                .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
                .map((e) => e.tagName + '.' + e.className + '#' + e.id)",
        );
        assert_eq!(beyond, serde_json::json!([]), "{screen:?}");
    }
}

#[test]
fn what_is_touched_is_large_enough_for_a_finger() {
    if !madang_testing::drill!() {
        return;
    }
    let page = Page::new();
    page.looks(Page::PHONE, "light");
    let _running = visit(&page);
    let small = page.value(
        "[...document.querySelectorAll('button, select, input[type=search], input[type=range], nav a, .mark, summary, label:not(.unseen)')]
            .filter((e) => e.getClientRects().length > 0)
            .map((e) => [e.id || e.textContent.trim(), e.getBoundingClientRect()])
            .filter(([, box]) => box.height < 44 || box.width < 44)
            .map(([name, box]) => `${name}: ${box.width} x ${box.height}`)",
    );
    assert_eq!(small, serde_json::json!([]));
}

/// The contrast of all text that is seen with what is behind it (WCAG 2.2, 1.4.3), where it is too weak.
pub const WEAK_TEXT: &str = "(() => {
    const channels = (text) => text.match(/[0-9.]+/g).map(Number);
    const luminance = (rgb) => {
        const [r, g, b] = rgb.map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (node) => {
        for (let e = node; e; e = e.parentElement) {
            const [r, g, b, a = 1] = channels(getComputedStyle(e).backgroundColor);
            if (a > 0) return [r, g, b];
        }
    };
    const weak = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    let seen = 0;
    while (walker.nextNode()) {
        const e = walker.currentNode.parentElement;
        const off = e.closest('noscript, :disabled, .skip, .unseen') || !walker.currentNode.data.trim() || e.getClientRects().length === 0;
        if (off) continue;
        seen += 1;
        const [a, b] = [luminance(channels(getComputedStyle(e).color).slice(0, 3)), luminance(behind(e))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) weak.push(`${contrast.toFixed(2)}: ${walker.currentNode.data.trim()}`);
    }
    return { seen, weak };
})()";

#[test]
fn text_is_strong_enough_to_be_read_in_light_and_dark() {
    if !madang_testing::drill!() {
        return;
    }
    let page = Page::new();
    for scheme in ["light", "dark"] {
        page.looks(Page::DESKTOP, scheme);
        let _running = visit(&page);
        let found = page.value(WEAK_TEXT);
        assert!(found["seen"].as_u64() > Some(60), "{found}");
        assert_eq!(found["weak"], serde_json::json!([]), "{scheme}");
    }
}

#[test]
fn the_search_is_reached_by_keyboard_and_the_way_there_can_be_skipped() {
    if !madang_testing::drill!() {
        return;
    }
    let page = Page::new();
    let _running = visit(&page);
    let active = || {
        page.value("document.activeElement.id || document.activeElement.className || document.activeElement.textContent.trim()")
    };
    page.press("Tab", 9);
    assert_eq!(active(), "skip");
    let mut way = Vec::new();
    while way.last().is_none_or(|last| *last != "market-query") {
        page.press("Tab", 9);
        let now = active();
        let ring = page.value("document.activeElement.matches(':focus-visible')");
        assert_eq!(ring, true, "{now} shows that it has the focus");
        way.push(now);
        assert!(way.len() < 40, "the search is not reached: {way:?}");
    }
    assert!(way.contains(&"trail-along".into()), "{way:?}");
    page.value("document.activeElement.blur(); document.querySelector('.skip').focus()");
    page.press("Enter", 13);
    page.until("location.hash === '#markets'");
    page.press("Tab", 9);
    assert_eq!(active(), "market-query");
}

#[test]
fn every_control_has_a_name() {
    let page = Page::new();
    let _running = visit(&page);
    page.call("Accessibility.enable", serde_json::json!({}));
    let tree = page.call("Accessibility.getFullAXTree", serde_json::json!({}));
    let controls =
        ["button", "searchbox", "combobox", "slider", "checkbox", "radio", "link", "img", "image"];
    let mut named = 0;
    for node in tree["nodes"].as_array().unwrap() {
        let role = node["role"]["value"].as_str().unwrap_or("");
        if node["ignored"] == true || !controls.contains(&role) {
            continue;
        }
        let name = node["name"]["value"].as_str().unwrap_or("");
        assert!(!name.trim().is_empty(), "a {role} without a name: {node}");
        named += 1;
    }
    assert!(named > 25, "only {named}");
}

#[test]
fn names_in_hangul_are_marked_as_korean() {
    if !madang_testing::drill!() {
        return;
    }
    let page = Page::new();
    let _running = visit(&page);
    assert_eq!(page.value("document.documentElement.lang"), "en");
    let unmarked = page.value(
        "(() => {
            const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            const found = [];
            while (walker.nextNode()) {
                const { data, parentElement } = walker.currentNode;
                if (/[가-힣]/.test(data) && parentElement.closest('[lang]').getAttribute('lang') !== 'ko') found.push(data);
            }
            return found;
        })()",
    );
    assert_eq!(unmarked, serde_json::json!([]));
}

#[test]
fn motion_is_left_out_for_those_who_ask_for_it() {
    if !madang_testing::drill!() {
        return;
    }
    let page = Page::new();
    let _running = visit(&page);
    let motion = "[getComputedStyle(document.documentElement).scrollBehavior, getComputedStyle(document.querySelector('.gauge')).transitionDuration]";
    page.media("prefers-reduced-motion", "reduce");
    assert_eq!(page.value(motion), serde_json::json!(["auto", "0s"]));
    page.media("prefers-reduced-motion", "no-preference");
    assert_eq!(page.value(motion), serde_json::json!(["smooth", "0.3s"]));
}

#[test]
fn without_scripts_it_is_a_page_to_read() {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).start();
    let page = Page::new();
    page.call("Emulation.setScriptExecutionDisabled", serde_json::json!({"value": true}));
    page.open(&format!("http://{}/", server.api));
    let text = page.value("document.body.innerText");
    let text = text.as_str().unwrap();
    for part in ["The yard where", "JavaScript is off", "Trails", "Markets", "Statistics Korea"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    for part in ["Ask it 200 times", "Near me", "Along the path"] {
        assert!(!text.contains(part), "{part:?} does nothing without scripts");
    }
}
