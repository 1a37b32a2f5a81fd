//! Runs a test again in a process of its own, under limits, where it is alone with its memory and threads.

use std::process::Command;

const MARK: &str = "HASH_TEST_CHILD";

/// Whether this is the process of its own, where the test does its work.
fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Runs `body` in a process of its own, started through a shell that first runs `limits`; `test` is the full
/// name of the calling test. Passes if the child does.
pub fn alone(test: &str, limits: &str, body: impl FnOnce()) {
    if is_child() {
        body();
        return;
    }
    let output = Command::new("sh")
        .args(["-c", &format!("{limits}; exec \"$0\" --exact \"$1\" --test-threads=1")])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(MARK, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // A wrong name would run nothing and succeed.
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}
