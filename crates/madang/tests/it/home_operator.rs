//! The operator's view: who may see it, what it says, and how it looks in a real browser.

use crate::accounts_guard::attempt;
use crate::harness::browser::{Page, Screen};
use crate::harness::{Answer, Madang, Person, Server, Setup, database, eventually, stores};
use crate::posts::bicycle;
use serde_json::{Value, json};

pub const TOKEN: &str = "9b1f64c2e07d5a38916cfd20b7e4835a";
const FIGURES: &str = "/home/operator/figures";
const PHONE: Screen = Screen { width: 360, height: 740, phone: true };

fn setup() -> Setup {
    Setup::new().cheap_hash().set("home.operator_token", TOKEN)
}

fn with(server: &Server, token: &str, path: &str) -> Answer {
    server.get_with(path, &[("Authorization", &format!("Bearer {token}"))])
}

/// The figures after a number; nothing while a test that looks again and again is too fast.
pub fn figures(server: &Server, after: u64) -> Option<Value> {
    let answer = with(server, TOKEN, &format!("{FIGURES}?after={after}"));
    assert!([200, 429].contains(&answer.status), "{answer:?}");
    (answer.status == 200).then(|| answer.json())
}

fn values(figures: &Value, series: &str) -> Vec<f64> {
    let values = figures["series"][series].as_array().unwrap_or_else(|| panic!("no {series}"));
    values.iter().filter_map(Value::as_f64).collect()
}

/// A server after requests of every kind, and somebody who has made some.
fn busy() -> (tempfile::TempDir, Server, Person) {
    let dir = stores::bundled();
    database::execute(dir.path(), "UPDATE track_paths SET path = x'ff00ff00' WHERE track_id = 3");
    let server =
        setup().data(dir.path()).set("guard.pair", "1/15min").set("limits.write", "2/1h").start();
    let mina = server.somebody("mina");
    for _ in 0..10 {
        assert_eq!(server.get("/v1/tracks/4").status, 200);
    }
    for (status, id) in [(404, 999_999), (500, 3), (500, 3), (500, 3)] {
        server.get(&format!("/v1/tracks/{id}")).problem(status);
    }
    for status in [201, 201, 429] {
        assert_eq!(server.post("/v1/posts", Some(&mina), &bicycle()).status, status);
    }
    for status in [401, 429] {
        attempt(&server, "mina", "wrong-horse-battery", &json!({}), &[]).problem(status);
    }
    (dir, server, mina)
}

/// Series that such a server has something in.
const MOVED: [&str; 11] = [
    "answers2xx", "answers4xx", "answers5xx", "logInsRefused", "rateLimited", "writes",
    "cacheBytes", "diskFreeBytes", "p50Milliseconds", "p99Milliseconds", "cacheHitRatio",
];

#[test]
fn without_a_token_in_the_settings_there_is_nothing() {
    let server = Setup::new().start();
    for path in ["/home/operator", "/home/operator.js", "/home/operator.css", FIGURES] {
        server.get(path).problem(404);
        with(&server, TOKEN, path).problem(404);
    }
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn without_the_home_page_the_view_stays() {
    let server = setup().set("home.page", "off").start();
    for path in ["/", "/home/figures", "/home/main.js", "/home/provinces.geojson"] {
        server.get(path).problem(404);
    }
    for path in [
        "/home/operator", "/home/operator.js", "/home/operator.css", "/home/style.css",
        "/home/page.js", "/home/icon.svg",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{path}: {policy}");
        let text = answer.text().replace("http://www.w3.org/2000/svg", "");
        for wrong in ["http://", "https://", "innerHTML", " style=", "localStorage", TOKEN] {
            assert!(!text.contains(wrong), "{path}: {wrong}");
        }
    }
    assert_eq!(with(&server, TOKEN, FIGURES).status, 200);
}

#[test]
fn only_the_token_opens_the_figures() {
    let server = setup().start();
    let mina = server.somebody("mina");
    let answer = with(&server, TOKEN, FIGURES);
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let other = TOKEN.replace('9', "8");
    for wrong in [&other, &TOKEN[1..], &format!("{TOKEN}0"), &TOKEN.to_uppercase(), "", &mina.token]
    {
        let answer = with(&server, wrong, FIGURES);
        answer.problem(401);
        assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    let right = format!("Bearer {TOKEN}");
    let twice = [("Authorization", right.as_str()), ("Authorization", right.as_str())];
    server.get_with(FIGURES, &twice).problem(401);
    server.get_with(FIGURES, &[("Authorization", &format!("Basic {TOKEN}"))]).problem(401);
    server.get(FIGURES).problem(401);
    server.get(&format!("{FIGURES}?token={TOKEN}")).problem(401);
    with(&server, TOKEN, &format!("{FIGURES}?after=x")).problem(422);
    server.connect().request("POST", FIGURES, &[("Content-Length", "0")]).problem(405);
    // It opens nothing else.
    let operator = Person { nickname: "operator".to_owned(), token: TOKEN.to_owned() };
    server.post("/v1/posts", Some(&operator), &bicycle()).problem(401);
}

#[test]
fn who_guesses_fast_learns_nothing_more_and_holds_up_nobody_else() {
    let server = setup().start();
    let wrong = [("Authorization", "Bearer 00000000000000000000000000000000")];
    let mut guessing = server.connect();
    let tried = (1..1000).find(|_| guessing.request("GET", FIGURES, &wrong).status == 429);
    assert!((301..600).contains(&tried.expect("an end of guessing")), "{tried:?}");
    let right = [("Authorization", &*format!("Bearer {TOKEN}"))];
    // A token comes back every 0.2 s: soon enough, one of these is too early.
    let refused = eventually("a right guess that is refused", || {
        while guessing.request("GET", FIGURES, &wrong).status != 429 {}
        let answer = guessing.request("GET", FIGURES, &right);
        (answer.status == 429).then_some(answer)
    });
    assert!(refused.header("retry-after").is_some());
    assert_eq!(server.connect_from(2).request("GET", FIGURES, &right).status, 200);
}

#[test]
fn the_figures_say_what_has_happened_and_no_secret() {
    let (_dir, server, mina) = busy();
    let seen = eventually("samples of all of it", || {
        let seen = figures(&server, 0)?;
        let moved = |name: &&str| values(&seen, name).iter().any(|value| *value > 0.0);
        MOVED.iter().all(moved).then_some(seen)
    });
    let per_sample = seen["intervalSeconds"].as_f64().unwrap();
    for (name, most) in
        [("answers4xx", 4.0), ("answers5xx", 3.0), ("logInsRefused", 1.0), ("rateLimited", 1.0)]
    {
        // Two samples are no closer to each other, so nothing was counted twice.
        let total = values(&seen, name).iter().sum::<f64>() * per_sample;
        assert!(total <= most + 0.01, "{name}: {total} instead of {most}");
    }
    assert!(values(&seen, "cacheHitRatio").iter().any(|ratio| *ratio > 0.0 && *ratio < 1.0));
    assert_eq!(seen["replicas"], json!([]));
    let errors = seen["errors"].as_array().unwrap();
    assert!((1..=2).contains(&errors.len()), "the loader, and that it failed before: {errors:?}");
    assert_eq!(errors.iter().map(|error| error["count"].as_u64().unwrap()).sum::<u64>(), 3);
    for error in errors {
        let expected = json!(["GET", "/v1/tracks/{id}", 500]);
        assert_eq!(json!([error["method"], error["route"], error["status"]]), expected);
        assert!(error["message"].as_str().unwrap().contains("track 3"), "{error}");
    }
    let text = seen.to_string();
    for secret in [TOKEN, &mina.token, "mina", "wrong-horse", "127.0.0.1", "mysql:"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let number = seen["number"].as_u64().unwrap();
    let length = |seen: &Value| seen["series"]["writes"].as_array().unwrap().len();
    assert_eq!(length(&seen) as u64, number);
    let later = eventually("only what is new", || {
        let later = figures(&server, number)?;
        (later["number"].as_u64() > Some(number)).then_some(later)
    });
    assert_eq!(length(&later) as u64, later["number"].as_u64().unwrap() - number);
}

#[test]
fn the_token_is_shown_nowhere_and_a_short_one_refused() {
    let set = format!("home.operator_token={TOKEN}");
    let output = Madang::new(["config", "--set", &set]).succeeds();
    assert!(!output.stdout.contains(TOKEN) && output.stdout.contains("operator_token = (hidden)"));
    let short = "secret-but-too-short";
    let output = Madang::new(["serve"]).env("MADANG_HOME_OPERATOR_TOKEN", short).fails_with(2);
    output.complains(&["home.operator_token", "32 to 256", "MADANG_HOME_OPERATOR_TOKEN"]);
    assert!(!output.stderr.contains(short), "{}", output.stderr);
    let (_dir, server, _) = busy();
    with(&server, "another-token-that-is-wrong-but-long", FIGURES).problem(401);
    assert!(!server.log().contains(TOKEN) && !server.log().contains("another-token"));
}

/// Opens the view and types a token.
pub fn enter(page: &Page, server: &Server, token: &str) {
    page.open(&format!("http://{}/home/operator", server.api));
    page.until("!document.getElementById('enter').hidden");
    page.value("document.getElementById('token').focus()");
    page.insert(token);
    page.press("Enter", 13);
}

/// Waits until a picture has a line that is not flat.
fn drawn(page: &Page, picture: &str) {
    page.until(&format!(
        "[...document.querySelectorAll('#{picture} > svg path')].some((path) => new Set(path.getAttribute('d').match(/[0-9.]+(?=L|$)/g)).size > 1)"
    ));
}

const PICTURES: [&str; 12] = [
    "requests", "latency", "hits", "cache", "guard", "refused", "waiting", "writes", "log", "disk",
    "likes", "lag",
];

#[test]
fn every_picture_is_drawn_in_light_and_dark_on_any_screen() {
    let (_dir, server, _) = busy();
    let kept = std::env::var_os("MADANG_PICTURES").map(std::path::PathBuf::from);
    for (screen, scheme) in
        [(Page::DESKTOP, "light"), (Page::DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")]
    {
        let page = Page::new();
        page.looks(screen, scheme);
        enter(&page, &server, TOKEN);
        for moved in ["requests", "guard", "refused", "writes"] {
            drawn(&page, moved);
        }
        for picture in PICTURES {
            page.until(&format!("document.querySelector('#{picture} > svg path')"));
            for part in ["h2", ".unit", "li span", "li b"] {
                assert!(!page.text(&format!("#{picture} {part}")).is_empty(), "{picture} {part}");
            }
        }
        if let Some(dir) = &kept {
            let name = if screen.phone { "phone" } else { "desktop" };
            page.picture(&dir.join(format!("operator-{name}-{scheme}.png")));
        }
        assert!(page.text("#requests ul").contains("5xx"));
        let rows = page.text("#errors tbody");
        assert!(rows.contains("500 GET /v1/tracks/{id}") && rows.contains(" times"), "{rows}");
        let wide = page.value("document.documentElement.scrollWidth - innerWidth");
        assert!(wide.as_i64() <= Some(0), "{screen:?}: {wide}");
        let weak = page.value(crate::home_access::WEAK_TEXT);
        assert_eq!(weak["weak"], json!([]), "{scheme}");
        // Dashes tell the lines apart without colours.
        let dashes = page.value(
            "new Set([...document.querySelectorAll('#requests > svg path')].map((path) => getComputedStyle(path).strokeDasharray)).size",
        );
        assert!(dashes.as_u64() > Some(2), "{dashes}");
        assert_eq!(page.complaints(), Vec::<String>::new(), "{screen:?} {scheme}");
        for asked in page.requests() {
            assert!(!asked.contains(TOKEN), "{asked}");
        }
    }
}

#[test]
fn a_wrong_token_and_a_server_that_is_away_are_said() {
    let mut server = setup().start();
    let page = Page::new();
    for wrong in ["00000000000000000000000000000000", "마당"] {
        enter(&page, &server, wrong);
        page.until("document.getElementById('trouble').textContent.includes('token is wrong')");
        assert_eq!(page.value("document.getElementById('view').hidden"), true);
        assert_eq!(page.value("document.getElementById('token').value"), "");
        assert_eq!(page.value("sessionStorage.length + localStorage.length"), 0);
    }
    page.insert(TOKEN);
    page.press("Enter", 13);
    page.until("document.querySelector('#disk > svg path')");
    assert_eq!(page.value("document.getElementById('trouble').hidden"), true);
    assert_eq!(
        page.value("[sessionStorage.length, localStorage.length, document.cookie]"),
        json!([1, 0, ""])
    );
    // In the same tab it is not asked for again.
    page.value("window.left = true");
    page.call("Page.reload", json!({}));
    page.until("!window.left && document.querySelector('#disk > svg path')");
    server.signalled_until_it_ends(rustix::process::Signal::KILL);
    page.until("document.getElementById('trouble').textContent.includes('does not answer')");
    assert_eq!(page.value("document.getElementById('trouble').getAttribute('role')"), "alert");
    assert_eq!(
        page.value("document.getElementById('view').hidden"),
        false,
        "the past stays in sight"
    );
    page.value("document.getElementById('leave').click()");
    assert_eq!(page.value("sessionStorage.length"), 0);
    assert_eq!(page.value("document.getElementById('view').hidden"), true);
}

#[test]
fn everything_on_the_view_has_a_name_and_room_for_a_finger() {
    let server = setup().start();
    let page = Page::new();
    page.looks(PHONE, "light");
    enter(&page, &server, TOKEN);
    page.until("document.querySelector('#disk > svg path')");
    page.call("Accessibility.enable", json!({}));
    let tree = page.call("Accessibility.getFullAXTree", json!({}));
    let mut pictures = 0;
    for node in tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] != true) {
        let role = node["role"]["value"].as_str().unwrap_or("");
        if ["button", "textbox", "link", "img", "image", "figure", "table"].contains(&role) {
            let name = node["name"]["value"].as_str().unwrap_or("");
            assert!(!name.trim().is_empty(), "a {role} without a name: {node}");
            pictures += usize::from(["img", "image"].contains(&role));
        }
    }
    // The cache was not asked, so it has no hit ratio.
    assert!(pictures >= PICTURES.len() - 1, "{pictures}");
    page.value("document.getElementById('leave').click()");
    let small = page.value(
        "[...document.querySelectorAll('button, input, .mark')].filter((e) => e.getClientRects().length > 0)
            .filter((e) => e.getBoundingClientRect().height < 44).map((e) => e.id || e.textContent)",
    );
    assert_eq!(small, json!([]));
}
