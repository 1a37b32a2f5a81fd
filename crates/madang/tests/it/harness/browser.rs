//! Headless Chromium, told what to do over a pipe (DevTools protocol, `--remote-debugging-pipe`): neither a
//! port nor a WebSocket is needed, and when the tests end, however they do, the pipe closes and so does
//! the browser.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long the browser may take for anything; only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a page does that a test may ask about.
const KEPT_EVENTS: [&str; 5] = [
    "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded",
    "Network.requestWillBeSent", "Network.loadingFailed",
];

/// One browser for all tests that run at the same time; closed when the last of them is done with it.
pub fn browser() -> Arc<Browser> {
    static SHARED: Mutex<Weak<Browser>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let started = Arc::new(Browser::start());
        *shared = Arc::downgrade(&started);
        started
    })
}

/// A running Chromium with a profile of its own.
#[derive(Debug)]
pub struct Browser {
    child: Mutex<Child>,
    to: Mutex<(u64, ChildStdin)>,
    said: Arc<(Mutex<Said>, Condvar)>,
    profile: tempfile::TempDir,
}

/// What has come from it and nobody has taken yet.
#[derive(Debug, Default)]
struct Said {
    answers: HashMap<u64, Value>,
    events: Vec<Value>,
    ended: bool,
}

impl Browser {
    fn start() -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(profile.path().join("log")).unwrap();
        // Chromium reads descriptor 3 and writes descriptor 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >&2", "chromium"])
            .args(["--headless=new", "--remote-debugging-pipe", "--no-first-run"])
            // Tests run in containers, often as root, without a GPU and with a small /dev/shm.
            .args(["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--disable-background-networking", "--disable-component-update"])
            .arg(format!("--user-data-dir={}", profile.path().join("profile").display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = child.stdout.take().unwrap();
        let said = Arc::<(Mutex<Said>, Condvar)>::default();
        let into = Arc::clone(&said);
        std::thread::spawn(move || listen(BufReader::new(from), &into));
        let browser = Browser { child: Mutex::new(child), to: Mutex::new((0, to)), said, profile };
        browser.call(None, "Browser.getVersion", json!({}));
        browser
    }

    /// Calls a method and waits for its result.
    fn call(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        let mut message = json!({"method": method});
        message["params"] = params;
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let id = {
            let (last, to) = &mut *self.to.lock().unwrap_or_else(PoisonError::into_inner);
            *last += 1;
            message["id"] = (*last).into();
            let sent = to.write_all(format!("{message}\0").as_bytes()).and_then(|()| to.flush());
            sent.unwrap_or_else(|error| panic!("the browser has gone: {error}; {}", self.log()));
            *last
        };
        let answer = self.wait(method, |said| said.answers.remove(&id));
        assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<T>(&self, what: &str, mut find: impl FnMut(&mut Said) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        let mut said = self.said();
        loop {
            if let Some(found) = find(&mut said) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero() && !said.ended,
                "no {what}; is `chromium` installed? {}",
                self.log()
            );
            said = self.said.1.wait_timeout(said, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.profile.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The profile can be removed only once nothing writes to it any more.
        let _ = self
            .to
            .lock()
            .map(|mut to| to.1.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0"));
        let Ok(child) = self.child.get_mut() else { return };
        let end = Instant::now() + Duration::from_secs(10);
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn listen(mut from: impl std::io::BufRead, into: &(Mutex<Said>, Condvar)) {
    let mut message = Vec::new();
    while matches!(from.read_until(0, &mut message), Ok(count) if count > 0) {
        message.pop();
        let value: Value = serde_json::from_slice(&message).unwrap_or_default();
        let mut said = into.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = value["id"].as_u64() {
            said.answers.insert(id, value);
        } else if KEPT_EVENTS.contains(&value["method"].as_str().unwrap_or("")) {
            said.events.push(value);
        }
        into.1.notify_all();
        message.clear();
    }
    into.0.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
    into.1.notify_all();
}

/// A page with cookies and storage of its own.
#[derive(Debug)]
pub struct Page {
    browser: Arc<Browser>,
    context: String,
    session: String,
}

/// A screen: pixels, and whether it is one for fingers.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    pub width: u32,
    pub height: u32,
    pub phone: bool,
}

impl Page {
    pub const DESKTOP: Screen = Screen { width: 1280, height: 900, phone: false };
    pub const PHONE: Screen = Screen { width: 390, height: 844, phone: true };

    pub fn new() -> Page {
        let browser = browser();
        let id = |value: Value, name: &str| value[name].as_str().unwrap().to_owned();
        let context = browser.call(None, "Target.createBrowserContext", json!({}));
        let context = id(context, "browserContextId");
        let target = json!({"url": "about:blank", "browserContextId": context});
        let target = id(browser.call(None, "Target.createTarget", target), "targetId");
        let attach = json!({"targetId": target, "flatten": true});
        let session = id(browser.call(None, "Target.attachToTarget", attach), "sessionId");
        let page = Page { browser, context, session };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.looks(Self::DESKTOP, "light");
        page
    }

    pub fn call(&self, method: &str, params: Value) -> Value {
        self.browser.call(Some(&self.session), method, params)
    }

    /// Gives the page this screen, and `light` or `dark`.
    pub fn looks(&self, screen: Screen, scheme: &str) {
        let ratio = if screen.phone { 2 } else { 1 };
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": screen.width, "height": screen.height, "deviceScaleFactor": ratio, "mobile": screen.phone}),
        );
        self.media("prefers-color-scheme", scheme);
    }

    /// Lets the page do what its user would be asked for first.
    pub fn grant(&self, permission: &str) {
        let params = json!({"permissions": [permission], "browserContextId": self.context});
        self.browser.call(None, "Browser.grantPermissions", params);
    }

    /// Sets one media feature, and unsets all others.
    pub fn media(&self, name: &str, value: &str) {
        let features = json!({"features": [{"name": name, "value": value}]});
        self.call("Emulation.setEmulatedMedia", features);
    }

    pub fn open(&self, address: &str) {
        self.call("Page.navigate", json!({"url": address}));
        self.until("document.readyState === 'complete'");
    }

    /// The value of an expression, awaited when it is a promise.
    pub fn value(&self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let result = self.call("Runtime.evaluate", params);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    pub fn text(&self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({selector:?})?.textContent"));
        text.as_str().unwrap_or_else(|| panic!("no {selector}")).trim().to_owned()
    }

    /// Looks again and again until an expression is neither false nor nothing.
    pub fn until(&self, expression: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            // While a page is being left, the expression has no world to run in.
            let params =
                json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
            let result = self.call("Runtime.evaluate", params);
            let value = result["result"]["value"].clone();
            if !matches!(&value, Value::Null | Value::Bool(false)) && value != 0 && value != "" {
                return value;
            }
            let state = || self.value("document.body.innerText");
            assert!(Instant::now() < end, "in vain: {expression} ({result})\n{}", state());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Types text as an input method or a paste does.
    pub fn insert(&self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Presses and releases a key that has a name, such as `Tab`.
    pub fn press(&self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "char", "keyUp"] {
            let text = if key == "Enter" && kind == "char" { "\r" } else { "" };
            if kind == "char" && text.is_empty() {
                continue;
            }
            self.call(
                "Input.dispatchKeyEvent",
                json!({"type": kind, "key": key, "code": key, "text": text, "windowsVirtualKeyCode": code}),
            );
        }
    }

    /// Everything the page has complained about: errors, warnings, refused and failed requests.
    pub fn complaints(&self) -> Vec<String> {
        self.events(|method| method != "Network.requestWillBeSent")
            .iter()
            .filter(|event| event["params"]["canceled"] != true)
            .map(Value::to_string)
            .collect()
    }

    /// Every address it has asked for.
    pub fn requests(&self) -> Vec<String> {
        let sent = self.events(|method| method == "Network.requestWillBeSent");
        let address = |event: &Value| event["params"]["request"]["url"].as_str().map(str::to_owned);
        sent.iter().filter_map(address).collect()
    }

    fn events(&self, wanted: impl Fn(&str) -> bool) -> Vec<Value> {
        let said = self.browser.said();
        let mine = said.events.iter().filter(|event| event["sessionId"] == self.session.as_str());
        mine.filter(|event| wanted(event["method"].as_str().unwrap_or(""))).cloned().collect()
    }

    /// Writes a picture of the whole page as PNG.
    pub fn picture(&self, path: &std::path::Path) {
        use base64::Engine as _;
        let size = self.value("[innerWidth, document.documentElement.scrollHeight]");
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1});
        let params = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let taken = self.call("Page.captureScreenshot", params);
        let data =
            base64::engine::general_purpose::STANDARD.decode(taken["data"].as_str().unwrap());
        std::fs::write(path, data.unwrap()).unwrap();
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the page had complained: {:?}", self.complaints());
        }
        let mut said = self.browser.said();
        said.events.retain(|event| event["sessionId"] != self.session.as_str());
        drop(said);
        if !std::thread::panicking() {
            let context = json!({"browserContextId": self.context});
            self.browser.call(None, "Target.disposeBrowserContext", context);
        }
    }
}
