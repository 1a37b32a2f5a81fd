//! Small and read-only file systems, in a mount namespace of the child's own; and a machine of its own with a network that
//! can be cut.
//!
//! They need no privilege where the system lets users make namespaces (`unshare -r`). Where it does
//! not, the test fails and says so: a fault that was not injected was not survived.

use super::command::{clean, program};
use super::eventually;
use madang_testing::alone;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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

/// Runs a test again in a process of its own that has a network of its own; `test` is its full name.
pub fn in_own_network(test: &str, body: impl FnOnce()) {
    alone(test, &["unshare", "--map-root-user", "--net"], || {
        ip(&["link", "set", "lo", "up"]);
        body();
    });
}

/// Another machine as far as the network goes, with a link for its clients and one for its database. To be made within
/// [`in_own_network`].
pub struct Machine {
    /// Has the machine's network for as long as it runs.
    holder: Child,
}

/// The side of this process and of the machine of a link.
const CLIENTS: [&str; 2] = ["10.77.1.1", "10.77.1.2"];
const DATABASE: [&str; 2] = ["10.77.2.1", "10.77.2.2"];

impl Machine {
    pub fn new() -> Self {
        // It waits for the end of its input.
        let holder = Command::new("unshare").args(["--net", "cat"]).stdin(Stdio::piped()).spawn();
        let machine = Self { holder: holder.unwrap() };
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        eventually("a network of its own", || {
            fs::read_link(machine.network()).ok().filter(|network| *network != own)
        });
        let pid = machine.holder.id().to_string();
        for (name, [here, there]) in [("clients", CLIENTS), ("database", DATABASE)] {
            let peer = format!("{name}-far");
            ip(&["link", "add", name, "type", "veth", "peer", "name", &peer, "netns", &pid]);
            ip(&["address", "add", &format!("{here}/24"), "dev", name]);
            ip(&["link", "set", name, "up"]);
            machine.ip(&["address", "add", &format!("{there}/24"), "dev", &peer]);
            machine.ip(&["link", "set", &peer, "up"]);
        }
        machine.ip(&["link", "set", "lo", "up"]);
        machine
    }

    /// Where its clients reach it.
    pub fn address(&self) -> IpAddr {
        address(CLIENTS[1])
    }

    /// Where it reaches the database.
    pub fn database(&self) -> IpAddr {
        address(DATABASE[0])
    }

    /// A command that becomes `madang` there, with the arguments that follow.
    pub fn madang(&self) -> Command {
        self.enter(program())
    }

    /// Takes its link to the database down: what either side sends is lost, and no connection is closed.
    pub fn cut(&self) {
        ip(&["link", "set", "database", "down"]);
    }

    pub fn mend(&self) {
        ip(&["link", "set", "database", "up"]);
    }

    fn network(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.holder.id()).into()
    }

    fn enter(&self, program: &str) -> Command {
        let mut command = clean("nsenter");
        command.arg(format!("--net={}", self.network().display())).arg(program);
        command
    }

    fn ip(&self, args: &[&str]) {
        succeeds(self.enter("ip").args(args));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn address(text: &str) -> IpAddr {
    text.parse::<Ipv4Addr>().unwrap().into()
}

fn ip(args: &[&str]) {
    succeeds(clean("ip").args(args));
}

fn succeeds(command: &mut Command) {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}
