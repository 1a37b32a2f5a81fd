//! Small and read-only file systems, in a mount namespace of the child's own.
//!
//! They need no privilege where the system lets users make namespaces (`unshare -r`). Where it does
//! not, the test fails and says so: a fault that was not injected was not survived.

use super::command::{clean, program};
use std::path::Path;
use std::process::Command;

/// A command that mounts a `tmpfs` of this size on `dir`, runs `prepare` in a shell there, and
/// becomes `madang` with the arguments that follow.
pub fn on_small_disk(dir: &Path, size: &str, prepare: &str) -> Command {
    let mount = format!("mount -t tmpfs -o size={size} tmpfs \"$DIR\"");
    inside(dir, &format!("{mount} || exit 99; cd \"$DIR\" || exit 99\n{prepare}"))
}

/// The same with `dir` as it is, but read-only.
pub fn on_read_only_disk(dir: &Path) -> Command {
    let mount = "mount --bind \"$DIR\" \"$DIR\" && mount -o remount,bind,ro \"$DIR\"";
    inside(dir, &format!("{mount} || exit 99"))
}

fn inside(dir: &Path, script: &str) -> Command {
    assert_namespaces();
    let mut command = clean("unshare");
    let script = format!("{script}\nexec \"$MADANG\" \"$@\"");
    command.args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
    command.env("DIR", dir).env("MADANG", program());
    command
}

fn assert_namespaces() {
    let allowed = clean("unshare")
        .args(["--map-root-user", "--mount", "true"])
        .status()
        .is_ok_and(|status| status.success());
    assert!(
        allowed,
        "this system does not let users make mount namespaces (`unshare --map-root-user --mount`): \
         full and read-only disks cannot be tested here"
    );
}
