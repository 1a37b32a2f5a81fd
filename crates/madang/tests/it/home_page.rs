//! The home page in a real browser: what a person sees.

use crate::harness::browser::{Page, Screen};
use crate::harness::{Madang, Server, Setup, data, stores};
use serde_json::{Value, json};

/// A page of a server with the bundled tracks, loaded to the end.
fn visit(screen: Screen, scheme: &str) -> (tempfile::TempDir, Server, Page) {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).start();
    let page = Page::new();
    page.looks(screen, scheme);
    page.open(&address(&server));
    settled(&page);
    (dir, server, page)
}

fn address(server: &Server) -> String {
    format!("http://{}/", server.api)
}

/// Waits until everything is there that comes unasked.
fn settled(page: &Page) {
    drawn(page, "full high medium low");
    page.until("document.querySelectorAll('.provinces path').length === 17");
    page.until("document.getElementById('market-status').textContent.trim()");
    page.until("document.querySelector('#live-rate .line').getAttribute('d')");
}

/// Waits until the overview shows these levels.
fn drawn(page: &Page, levels: &str) {
    page.until(&format!("document.getElementById('trail-overview').dataset.levels === {levels:?}"));
}

const LOOKS: [(Screen, &str); 4] = [
    (Page::DESKTOP, "light"),
    (Page::DESKTOP, "dark"),
    (Page::PHONE, "light"),
    (Page::PHONE, "dark"),
];

/// Of each level's colour, how many pixels of a canvas have it.
fn pixels(page: &Page, canvas: &str) -> [u64; 4] {
    let counts = page.value(&format!(
        "(() => {{
            const canvas = document.getElementById({canvas:?});
            const {{ data }} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            return ['full', 'high', 'medium', 'low'].map((level) => {{
                const hex = getComputedStyle(document.documentElement).getPropertyValue('--level-' + level).trim();
                const wanted = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
                let count = 0;
                for (let at = 0; at < data.length; at += 4) {{
                    const near = wanted.every((value, channel) => Math.abs(data[at + channel] - value) < 3);
                    if (near && data[at + 3] > 250) count += 1;
                }}
                return count;
            }});
        }})()"
    ));
    serde_json::from_value(counts).unwrap()
}

#[test]
fn a_trail_is_drawn_at_all_levels_in_light_and_dark_on_any_screen() {
    for (screen, scheme) in LOOKS {
        let (_dir, _server, page) = visit(screen, scheme);
        for canvas in ["trail-overview", "trail-close"] {
            let found = pixels(&page, canvas);
            assert!(
                found.iter().all(|count| *count > 30),
                "{canvas} {screen:?} {scheme}: {found:?}"
            );
        }
        assert_eq!(page.complaints(), Vec::<String>::new(), "{screen:?} {scheme}");
    }
}

#[test]
fn a_level_that_is_switched_off_is_no_longer_drawn() {
    if !madang_testing::drill!() {
        return;
    }
    let (_dir, _server, page) = visit(Page::DESKTOP, "light");
    page.value("document.querySelector('[data-level=high] input').click()");
    drawn(&page, "full medium low");
    assert_eq!(pixels(&page, "trail-overview")[1], 0);
    page.value("document.querySelector('[data-level=high] input').click()");
    drawn(&page, "full high medium low");
    assert!(pixels(&page, "trail-overview")[1] > 30);
}

#[test]
fn colours_follow_the_reader_while_the_page_is_open() {
    if !madang_testing::drill!() {
        return;
    }
    let (_dir, _server, page) = visit(Page::DESKTOP, "light");
    let light = page.value("getComputedStyle(document.body).backgroundColor");
    page.looks(Page::DESKTOP, "dark");
    assert_ne!(page.value("getComputedStyle(document.body).backgroundColor"), light);
    page.until(
        "(() => {
            const canvas = document.getElementById('trail-overview');
            const hex = getComputedStyle(document.documentElement).getPropertyValue('--level-low').trim();
            const wanted = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
            const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            for (let at = 0; at < data.length; at += 4) {
                if (wanted.every((value, channel) => Math.abs(data[at + channel] - value) < 3)) return true;
            }
        })()",
    );
}

/// Chooses the trail with this many points and waits until it is drawn.
fn choose(page: &Page, server: &Server, points: u64) -> i64 {
    let id = server.track_of(points);
    page.value(&format!("document.querySelector('input[name=trail][value=\"{id}\"]').click()"));
    let about = format!("{} points", thousands(points));
    page.until(&format!("document.getElementById('trail-about').textContent.includes({about:?})"));
    id
}

fn thousands(n: u64) -> String {
    if n < 1000 { n.to_string() } else { format!("{},{:03}", n / 1000, n % 1000) }
}

#[test]
fn the_figures_of_each_level_are_those_of_the_answers() {
    if !madang_testing::drill!() {
        return;
    }
    let (_dir, server, page) = visit(Page::DESKTOP, "light");
    // With many parts, with one, around the world, and the longest list of points.
    for points in [1243, 464, 697, 24758] {
        let id = choose(&page, &server, points);
        for level in ["full", "high", "medium", "low"] {
            let said = page.value(&format!("document.querySelector('[data-level={level}]').title"));
            let said = said.as_str().unwrap();
            let encoding = said.rsplit(", ").next().unwrap();
            let path = format!("/v1/tracks/{id}?detail={level}");
            let answer = server.get_with(&path, &[("Accept-Encoding", encoding)]);
            assert_eq!(answer.status, 200);
            let decoded = answer.decoded();
            let track: Value = serde_json::from_slice(&decoded).unwrap();
            let expected = format!(
                "{} points, {} of {} bytes, {encoding}",
                track["pointsReturned"],
                answer.body.len(),
                decoded.len()
            );
            assert_eq!(said, expected, "{level} of {points} points");
            let shown = page.text(&format!("[data-level={level}] .points"));
            assert_eq!(shown, thousands(track["pointsReturned"].as_u64().unwrap()));
        }
    }
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn the_longest_path_is_fetched_only_when_it_is_chosen() {
    if !madang_testing::drill!() {
        return;
    }
    let (_dir, server, page) = visit(Page::DESKTOP, "light");
    let full = format!("/v1/tracks/{}?detail=full", server.track_of(24758));
    let asked = |page: &Page| page.requests().iter().filter(|a| a.ends_with(&full)).count();
    assert_eq!(asked(&page), 0);
    assert_eq!(page.requests().iter().filter(|a| a.ends_with("detail=full")).count(), 1);
    choose(&page, &server, 24758);
    assert_eq!(asked(&page), 1);
}

#[test]
fn trails_are_listed_by_length_and_by_name() {
    if !madang_testing::drill!() {
        return;
    }
    let (_dir, server, page) = visit(Page::DESKTOP, "light");
    let names = || {
        page.value("[...document.querySelectorAll('#trail-list .name')].map((n) => n.textContent)")
    };
    let by_length: Vec<Value> = server.get("/v1/tracks?sort=length&limit=100").json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|track| track["name"].clone())
        .collect();
    assert_eq!(names(), json!(by_length));
    page.value("document.querySelector('input[name=trail-order][value=name]').click()");
    let by_name = names();
    assert_ne!(by_name, json!(by_length));
    assert_eq!(by_name[0], "03-OCT-10");
    assert_eq!(by_name.as_array().unwrap().len(), by_length.len());
}

#[test]
fn a_path_over_the_antimeridian_goes_on_instead_of_jumping() {
    if !madang_testing::drill!() {
        return;
    }
    let (_dir, server, page) = visit(Page::DESKTOP, "light");
    choose(&page, &server, 80);
    let width = page.value(&format!(
        "(async () => {{
            const {{ bounds, unwrap }} = await import('/home/path.js');
            const track = await (await fetch('/v1/tracks/{}?detail=full')).json();
            const raw = track.segments.flat().map(([, lon]) => lon);
            const box = bounds(unwrap(track.segments));
            return [Math.max(...raw) - Math.min(...raw), box.east - box.west];
        }})()",
        server.track_of(80)
    ));
    assert!(width[0].as_f64() > Some(359.0), "it crosses: {width}");
    assert!(width[1].as_f64() < Some(2.0), "{width}");
    // A path that jumped would be two dots at the edges.
    let found = pixels(&page, "trail-overview");
    assert!(found.iter().all(|count| *count > 30), "{found:?}");
}

#[test]
fn the_geometry_of_paths_is_right() {
    let (_dir, _server, page) = visit(Page::DESKTOP, "light");
    let found = page.value(
        "(async () => {
            const p = await import('/home/path.js');
            const full = p.unwrap([[[0, 0], [0.001, 0.005], [0, 0.01]], [[0, 0.02], [0, 0.03]]]);
            const low = p.unwrap([[[0, 0], [0, 0.01]], [[0, 0.02], [0, 0.03]]]);
            const way = p.measured(full);
            const view = p.projection({ west: 10, east: 20, south: 59, north: 61 }, 400, 400, 0);
            return {
                gap: p.widestGap(full, low),
                none: p.widestGap(low, low) ?? null,
                end: way.at(-1).share,
                start: p.positionAt(way, 0),
                centre: [view.x({ x: 15 }), view.y({ y: 60 })],
                square: (view.x({ x: 16 }) - view.x({ x: 15 })) / (view.y({ y: 60 }) - view.y({ y: 61 })),
                there: p.unwrap([[[0, 179]], [[0, -179]], [[0, 179]], [[0, -1]], [[0, -179]]]).map(([q]) => q.x),
            };
        })()",
    );
    // 0.001 degrees of latitude on the mean sphere.
    let gap = found["gap"]["metres"].as_f64().unwrap();
    assert!((gap - 111.195).abs() < 0.01, "{found}");
    assert_eq!(found["none"], Value::Null);
    assert_eq!(found["end"], 1);
    assert_eq!(found["start"], json!({"x": 0, "y": 0}));
    assert_eq!(found["centre"], json!([200, 200]));
    let square = found["square"].as_f64().unwrap();
    assert!((square - 0.5).abs() < 1e-9, "a degree east is half a degree north at 60°: {square}");
    assert_eq!(found["there"], json!([179, 181, 179, 359, 181]));
}

#[test]
fn looking_closer_moves_along_the_path() {
    if !madang_testing::drill!() {
        return;
    }
    let (_dir, _server, page) = visit(Page::DESKTOP, "light");
    let picture = || {
        page.value("document.getElementById('trail-close').toDataURL().length + ':' + document.getElementById('trail-close').toDataURL().slice(-4000)")
    };
    let before = picture();
    page.value("document.getElementById('trail-along').focus()");
    page.press("End", 35);
    page.until("document.getElementById('trail-along').value === '1000'");
    let end = picture();
    assert_ne!(end, before);
    page.value("document.getElementById('trail-out').click()");
    assert_ne!(picture(), end, "more is shown around the same place");
}

#[test]
fn live_figures_move_when_requests_come() {
    if !madang_testing::drill!() {
        return;
    }
    let (_dir, server, page) = visit(Page::DESKTOP, "light");
    let total =
        "Number(document.querySelector('#live-rate .total').textContent.replace(/[^0-9]/g, ''))";
    page.until(total);
    let before = page.value(total).as_u64().unwrap();
    page.value("document.getElementById('live-ask').click()");
    page.until(&format!("{total} >= {}", before + 200));
    page.until("/^[0-9.]+$/.test(document.querySelector('#live-latency .big').textContent)");
    page.until("document.querySelector('#live-latency .line.p99').getAttribute('d')");
    page.until("Number(document.querySelector('#live-hits .big').textContent) > 50");
    page.until("!document.getElementById('live-ask').disabled");
    assert!(server.metric("madang_http_server_requests_total", &["route=\"/v1/tracks\""]) >= 200.0);
}

#[test]
fn a_hidden_page_asks_for_nothing() {
    if !madang_testing::drill!() {
        return;
    }
    let (_dir, server, page) = visit(Page::DESKTOP, "light");
    page.value(
        "Object.defineProperty(document, 'hidden', { get: () => window.unseen ?? true, configurable: true });
         document.dispatchEvent(new Event('visibilitychange'))",
    );
    let polls = || server.metric("madang_http_server_requests_total", &["route=\"/home/figures\""]);
    let number = || {
        let figures = server.get("/home/figures").json();
        figures["samples"].as_array().unwrap().last().unwrap()["number"].as_u64().unwrap()
    };
    // What was on its way may still arrive; after that the server's own clock goes on without it.
    let mut quiet_from = (number(), polls());
    crate::harness::eventually("three seconds without a question", || {
        let before = polls();
        // One of them is this test's own.
        let now = number();
        if before > quiet_from.1 {
            quiet_from = (now, before + 1.0);
        } else {
            quiet_from.1 += 1.0;
        }
        (now >= quiet_from.0 + 3).then_some(())
    });
    page.value("window.unseen = false; document.dispatchEvent(new Event('visibilitychange'))");
    let before = polls();
    crate::harness::eventually("it asks again", || (polls() > before).then_some(()));
}

#[test]
fn a_name_with_markup_in_it_is_text() {
    let (dir, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let name = "<img src=x onerror=document.title='owned'> & \u{202e}<b>한강</b>";
    let escaped = name.replace('&', "&amp;").replace('<', "&lt;");
    let file = files.path().join("hostile.gpx");
    std::fs::write(&file, data::gpx(&escaped, &[(37.5, 127.0), (37.51, 127.01), (37.52, 127.0)]))
        .unwrap();
    Madang::import(dir.path(), [&file]).succeeds();
    let server = Setup::new().data(dir.path()).start();
    let page = Page::new();
    page.open(&address(&server));
    settled(&page);
    assert_eq!(page.text("#trail-name"), server.tracks()[0]["name"].as_str().unwrap());
    assert!(page.text("#trail-name").contains("<img src=x"));
    assert_eq!(page.value("document.querySelectorAll('main img, main b').length"), 0);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn an_empty_store_says_how_to_fill_it() {
    if !madang_testing::drill!() {
        return;
    }
    let server = Setup::new().start();
    let page = Page::new();
    page.open(&address(&server));
    page.until(
        "document.getElementById('trails-empty').textContent.includes('madang import tracks')",
    );
    page.until(
        "document.getElementById('market-status').textContent.includes('madang import markets')",
    );
    assert!(!page.value("document.getElementById('trails-empty').hidden").as_bool().unwrap());
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn everything_comes_from_this_server() {
    let (_dir, server, page) = visit(Page::DESKTOP, "light");
    let requests = page.requests();
    assert!(requests.len() > 15, "{requests:?}");
    for request in requests {
        assert!(request.starts_with(&address(&server)), "{request}");
    }
}

/// For eyes: with `MADANG_PICTURES=DIR` the pictures stay there.
#[test]
fn pictures_of_the_whole_page_can_be_taken() {
    if !madang_testing::drill!() {
        return;
    }
    let kept = std::env::var_os("MADANG_PICTURES").map(std::path::PathBuf::from);
    let temporary = tempfile::tempdir().unwrap();
    let dir = kept.as_deref().unwrap_or(temporary.path());
    for (screen, scheme) in LOOKS {
        let (_dir, server, page) = visit(screen, scheme);
        // Something to see in the figures, and in the list.
        page.value("document.getElementById('live-ask').click()");
        page.value("document.getElementById('market-query').focus()");
        page.insert("중앙");
        page.until("[...document.querySelectorAll('#market-list .name')].every((n) => n.textContent.includes('중앙'))");
        page.value("document.querySelectorAll('#market-list summary')[2].focus()");
        page.until("!document.getElementById('live-ask').disabled");
        page.until(
            "(document.querySelector('#live-hits .line').getAttribute('d') ?? '').includes('L')",
        );
        let name = if screen.phone { "phone" } else { "desktop" };
        let file = dir.join(format!("home-{name}-{scheme}.png"));
        page.picture(&file);
        let png = std::fs::read(&file).unwrap();
        assert!(png.starts_with(b"\x89PNG") && png.len() > 50_000, "{} bytes", png.len());
        drop(server);
    }
}
