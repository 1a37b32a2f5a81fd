//! The program as a command that runs to its end.

use super::{database, eventually};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::thread::JoinHandle;

/// A call of `madang` to be.
#[derive(Debug)]
pub struct Madang {
    command: Command,
    /// Away from any `madang.toml` and any data directory of the developer.
    home: tempfile::TempDir,
}

/// What a finished call left.
#[derive(Debug)]
pub struct Output {
    /// None when a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// The program that is tested: cargo's, or another build of it that `MADANG_BIN` names.
pub fn program() -> &'static str {
    static PROGRAM: LazyLock<String> = LazyLock::new(|| {
        let cargo = env!("CARGO_BIN_EXE_madang").to_owned();
        std::env::var("MADANG_BIN").unwrap_or(cargo)
    });
    &PROGRAM
}

impl Madang {
    pub fn new<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Madang {
        let mut command = clean(program());
        command.args(args);
        Self::from_command(command)
    }

    /// Through another program that runs it, such as a shell.
    pub fn from_command(mut command: Command) -> Madang {
        let home = tempfile::tempdir().unwrap();
        command.current_dir(home.path());
        Madang { command, home }
    }

    /// `madang import tracks --data DIR FILE…`
    pub fn import<S: AsRef<OsStr>>(dir: &Path, files: impl IntoIterator<Item = S>) -> Madang {
        let mut call = Self::new(["import", "tracks", "--data"]);
        call.command.arg(dir).args(files);
        call
    }

    pub fn env(mut self, name: &str, value: &str) -> Madang {
        self.command.env(name, value);
        self
    }

    /// Puts a file into the directory it runs in.
    pub fn file(self, name: &str, text: &str) -> Madang {
        std::fs::write(self.home.path().join(name), text).unwrap();
        self
    }

    pub fn spawn(mut self) -> (Child, tempfile::TempDir) {
        database::name_in(&mut self.command);
        let child = self.command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        (child, self.home)
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When that takes longer than the deadline.
    pub fn run(mut self) -> Output {
        database::name_in(&mut self.command);
        let mut child = self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        let status = eventually("the command ends", || child.try_wait().unwrap());
        Output {
            code: status.code(),
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
        }
    }

    /// Runs it and asserts that it succeeds.
    pub fn succeeds(self) -> Output {
        let output = self.run();
        output.has_code(0);
        output
    }

    /// Runs it and asserts its exit code.
    pub fn fails_with(self, code: i32) -> Output {
        let output = self.run();
        output.has_code(code);
        output
    }
}

impl Output {
    fn has_code(&self, code: i32) {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
    }

    /// Asserts that the complaint is one line with all of these parts.
    pub fn complains(&self, parts: &[&str]) -> &Self {
        let line = self.stderr.trim_end();
        assert!(line.starts_with("madang: "), "{line}");
        assert_eq!(line.lines().count(), 1, "more than a line: {line}");
        for part in parts {
            assert!(line.contains(part), "{line:?} does not name {part:?}");
        }
        self
    }

    /// Asserts that nothing panicked.
    pub fn is_calm(&self) -> &Self {
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }
}

/// A command without the developer's settings in its environment.
pub fn clean(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MADANG_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

fn collect(mut stream: impl std::io::Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
