//! The market search of the home page in a real browser.

use crate::harness::browser::Page;
use crate::harness::{Server, Setup, eventually, stores};
use serde_json::{Value, json};

fn visit(page: &Page) -> (tempfile::TempDir, Server) {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).start();
    page.open(&format!("http://{}/", server.api));
    page.until("document.querySelectorAll('.provinces path').length === 17");
    listed(page);
    (dir, server)
}

/// Waits until rows are listed.
fn listed(page: &Page) {
    page.until("document.querySelectorAll('#market-list li').length");
}

/// Types a search and waits until its result is shown.
fn search(page: &Page, text: &str) {
    page.value("document.getElementById('market-query').select()");
    page.value("document.getElementById('market-list').dataset.old = 'yes'; document.querySelectorAll('#market-list li').forEach((li) => { li.dataset.old = 'yes'; })");
    page.value("document.getElementById('market-query').focus()");
    page.insert(text);
    page.until("!document.querySelector('#market-list li[data-old]')");
}

fn names(page: &Page) -> Vec<String> {
    let names = page
        .value("[...document.querySelectorAll('#market-list .name')].map((n) => n.textContent)");
    serde_json::from_value(names).unwrap()
}

/// What the API finds, all of one page.
fn found(server: &Server, query: &str) -> Vec<Value> {
    let encoded: String = query
        .bytes()
        .map(|b| match b {
            b'=' | b'&' | b'a'..=b'z' | b'0'..=b'9' => char::from(b).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect();
    server.get(&format!("/v1/markets?limit=100&{encoded}")).json()["items"]
        .as_array()
        .unwrap()
        .clone()
}

#[test]
fn a_search_lists_what_the_api_finds_with_a_dot_for_each() {
    let page = Page::new();
    for (screen, scheme) in [(Page::DESKTOP, "light"), (Page::PHONE, "dark")] {
        page.looks(screen, scheme);
        let (_dir, server) = visit(&page);
        for text in ["시장", "중앙"] {
            search(&page, text);
            let expected = found(&server, &format!("q={text}"));
            let first: Vec<&str> = expected.iter().map(|m| m["name"].as_str().unwrap()).collect();
            let shown = names(&page);
            assert!(shown.len() >= 5 && shown == first[..shown.len()], "{shown:?}");
            let placed: Vec<Value> = expected
                .iter()
                .filter(|m| m["position"].is_array())
                .map(|m| json!(m["id"].to_string()))
                .collect();
            let dots = page.value("[...document.querySelectorAll('.dots circle')].map((c) => c.dataset.id).sort((a, b) => a - b)");
            let mut placed: Vec<i64> =
                placed.iter().map(|id| id.as_str().unwrap().parse().unwrap()).collect();
            placed.sort_unstable();
            let placed: Vec<String> = placed.iter().map(i64::to_string).collect();
            assert_eq!(dots, json!(placed), "{text}");
            assert!(placed.len() > 20, "{text}");
        }
        assert_eq!(page.complaints(), Vec::<String>::new());
        // Before its server goes.
        page.open("about:blank");
    }
}

#[test]
fn a_dot_lies_where_its_market_is() {
    if !madang_testing::drill!() {
        return;
    }
    let page = Page::new();
    let (_dir, server) = visit(&page);
    for region in ["제주특별자치도", "강원특별자치도", "부산광역시"] {
        page.value(&format!("document.getElementById('market-region').value = {region:?}; document.getElementById('market-region').dispatchEvent(new Event('change'))"));
        let expected = found(&server, &format!("region={region}"));
        let placed = expected.iter().filter(|m| m["position"].is_array()).count();
        page.until(&format!("document.querySelectorAll('.dots circle').length === {placed}"));
        // A little outside is possible: coasts are simplified, and harbours have markets.
        let inside = page.value(&format!(
            "(() => {{
                const province = document.querySelector('[data-province=\"{region}\"]').getBoundingClientRect();
                return [...document.querySelectorAll('.dots circle')].filter((dot) => {{
                    const box = dot.getBoundingClientRect();
                    const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
                    return x > province.left - 5 && x < province.right + 5 && y > province.top - 5 && y < province.bottom + 5;
                }}).length;
            }})()"
        ));
        let inside = usize::try_from(inside.as_u64().unwrap()).unwrap();
        assert!(placed > 5 && inside * 20 >= placed * 19, "{region}: {inside} of {placed}");
    }
}

#[test]
fn every_province_of_the_list_is_one_that_the_api_knows() {
    if !madang_testing::drill!() {
        return;
    }
    let page = Page::new();
    let (_dir, server) = visit(&page);
    let provinces = page.value(
        "[...document.getElementById('market-region').options].map((o) => o.value).filter(Boolean)",
    );
    let provinces = provinces.as_array().unwrap();
    assert_eq!(provinces.len(), 17);
    for province in provinces {
        let markets = found(&server, &format!("region={}", province.as_str().unwrap()));
        assert!(!markets.is_empty(), "{province}");
    }
    let drawn = page
        .value("[...document.querySelectorAll('.provinces path')].map((p) => p.dataset.province)");
    assert_eq!(&drawn, &json!(provinces));
}

#[test]
fn more_shows_every_hit_once() {
    if !madang_testing::drill!() {
        return;
    }
    let page = Page::new();
    let (_dir, server) = visit(&page);
    search(&page, "전통시장");
    let mut rows = 0;
    while page.value("document.getElementById('market-more').hidden") == false {
        page.value("document.getElementById('market-more').click()");
        page.until(&format!("document.querySelectorAll('#market-list li').length > {rows}"));
        rows = page.value("document.querySelectorAll('#market-list li').length").as_u64().unwrap();
        assert!(rows < 2000);
        page.until(&format!("document.querySelectorAll('#market-list li').length >= {rows}"));
    }
    let ids =
        page.value("[...document.querySelectorAll('#market-list li')].map((li) => li.dataset.id)");
    let ids: Vec<String> = serde_json::from_value(ids).unwrap();
    let first: Vec<String> =
        found(&server, "q=전통시장").iter().map(|m| m["id"].to_string()).collect();
    assert_eq!(ids[..first.len()], first);
    let mut once = ids.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), ids.len());
}

#[test]
fn a_row_lights_its_dot_and_opened_it_tells_more() {
    if !madang_testing::drill!() {
        return;
    }
    let page = Page::new();
    let (_dir, server) = visit(&page);
    search(&page, "중앙");
    page.value("document.querySelector('#market-list summary').focus()");
    let id = page.value("document.querySelector('#market-list li').dataset.id");
    assert_eq!(
        page.value("[...document.querySelectorAll('.dots .lit')].map((dot) => dot.dataset.id)"),
        json!([id])
    );
    page.press("Enter", 13);
    page.until("document.querySelector('#market-list dl')?.textContent.includes('visitor')");
    let views = || {
        server.get(&format!("/v1/markets/{}", id.as_str().unwrap())).json()["viewCount"].as_u64()
    };
    eventually("the view is counted", || (views() >= Some(1)).then_some(()));
    page.value("document.activeElement.blur()");
    // A dot far down the list brings its row.
    let far = page.value("document.querySelectorAll('.dots circle')[15].dataset.id");
    page.value(&format!("document.querySelector('.dots circle[data-id={far}]').dispatchEvent(new MouseEvent('click'))"));
    page.until(&format!("document.querySelector('#market-list li[data-id={far}] details').open"));
    assert_eq!(page.value("document.activeElement.closest('li').dataset.id"), far);
}

#[test]
fn a_syllable_that_is_being_composed_is_left_alone() {
    if !madang_testing::drill!() {
        return;
    }
    let page = Page::new();
    let (_dir, _server) = visit(&page);
    page.value("document.getElementById('market-query').focus()");
    // As a Korean input method does it: 중 is done, 아 becomes 앙.
    for (text, done) in
        [("ㅈ", false), ("주", false), ("중", true), ("ㅇ", false), ("아", false), ("앙", false)]
    {
        let at = text.chars().count();
        page.call(
            "Input.imeSetComposition",
            json!({"text": text, "selectionStart": at, "selectionEnd": at}),
        );
        if done {
            page.insert(text);
        }
        if text == "ㅇ" {
            // Whoever stops here gets the result of what is finished.
            eventually("a search", || {
                let asked = page.requests();
                let finished = asked.iter().any(|a| a.ends_with("q=%EC%A4%91"));
                finished.then_some(())
            });
        }
    }
    assert_eq!(page.value("document.getElementById('market-query').value"), "중앙");
    // The search runs although the last syllable is never ended, and does not disturb it.
    page.until("[...document.querySelectorAll('#market-list .name')].every((n) => n.textContent.includes('중앙')) && document.querySelector('#market-list li')");
    assert_eq!(page.value("document.getElementById('market-query').value"), "중앙");
    page.insert("앙");
    assert_eq!(page.value("document.getElementById('market-query').value"), "중앙");
    let asked = page.requests();
    let lone = asked.iter().filter(|a| a.contains("/v1/markets?")).any(|a| a.contains("%E3%85"));
    assert!(!lone, "a lone consonant is not searched for: {asked:?}");
}

#[test]
fn nearness_is_asked_for_only_on_a_click() {
    if !madang_testing::drill!() {
        return;
    }
    let page = Page::new();
    let (_dir, _server) = visit(&page);
    page.grant("geolocation");
    page.call(
        "Emulation.setGeolocationOverride",
        json!({"latitude": 33.5, "longitude": 126.53, "accuracy": 10}),
    );
    assert!(page.requests().iter().all(|a| !a.contains("near=")));
    page.value("document.getElementById('market-near').click()");
    page.until("document.querySelector('#market-list .far')");
    assert!(
        page.text("#market-list li .small").contains("제주"),
        "{}",
        page.text("#market-list li .small")
    );
    assert_eq!(
        page.value("document.getElementById('market-near').getAttribute('aria-pressed')"),
        "true"
    );
    page.value("document.getElementById('market-near').click()");
    page.until("!document.querySelector('#market-list .far')");
}

#[test]
fn nothing_found_and_a_refusal_are_said() {
    if !madang_testing::drill!() {
        return;
    }
    let page = Page::new();
    let (_dir, server) = visit(&page);
    search(&page, "없는이름입니다");
    assert_eq!(page.text("#market-status"), "Nothing found.");
    assert_eq!(page.value("document.querySelectorAll('.dots circle').length"), 0);
    drop(server);
    page.value("document.getElementById('market-query').value = ''; document.getElementById('market-form').requestSubmit()");
    page.until(
        "document.getElementById('market-status').textContent === 'The server does not answer.'",
    );
}
