//! The `quire` command as users run it: its output, its messages, its exit codes.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests read and write files of their own, and panic when they fail"
)]

mod admin;
mod backup;
#[path = "../../../kafka/tests/it/broker.rs"]
mod broker;
mod demo;
mod documents;
mod everything;
#[path = "../../../ship/tests/it/free_port.rs"]
mod free_port;
mod kafka;
mod kills;
mod load;
mod mariadb;
mod mariadb_joined;
mod mariadb_server;
mod pipe;
mod postgres;
#[path = "../../../postgres/tests/it/server.rs"]
mod postgres_server;
mod proxy;
mod query;
mod remote;
mod serve;
mod split;
mod volumes;
mod wide;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A directory for a test, with the database `db` in it.
struct Quire {
    directory: TempDir,
}

/// What a command did.
#[derive(Debug)]
struct Done {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Quire {
    fn new() -> Quire {
        Quire {
            directory: TempDir::new().unwrap(),
        }
    }

    /// A path in the directory.
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file into the directory.
    fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    /// The command with these arguments, run in the directory.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quire"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command.
    fn run(&self, arguments: &[&str]) -> Done {
        Done::of(&mut self.command(arguments))
    }

    /// Runs a command that must succeed, and gives its output.
    fn ok(&self, arguments: &[&str]) -> String {
        let done = self.run(arguments);
        assert_eq!(done.code, 0, "{arguments:?}: {done:?}");
        done.stdout
    }

    /// Runs a command that must succeed with `--json`, and gives the one object it prints.
    fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let arguments = [arguments, &["--json"]].concat();
        serde_json::from_str(&self.ok(&arguments)).unwrap()
    }

    /// Runs a command that must fail with `code`; what it says must hold each of `words`.
    fn fails(&self, arguments: &[&str], code: i32, words: &[&str]) -> Done {
        let done = self.run(arguments);
        assert_eq!(done.code, code, "{arguments:?}: {done:?}");
        for word in words {
            assert!(
                done.stderr.contains(word),
                "{arguments:?}: {word:?} is not in {}",
                done.stderr
            );
        }
        done
    }

    /// Runs a command over `input`.
    fn pipe(&self, arguments: &[&str], input: impl AsRef<[u8]>) -> Done {
        let mut command = self.command(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.as_ref().to_owned();
        // A command that stops early does not read all of it.
        let writer = std::thread::spawn(move || stdin.write_all(&input).ok());
        let done = Done::from(child.wait_with_output().unwrap());
        writer.join().unwrap();
        done
    }

    /// A collection `c` that holds `documents`, one a line.
    fn with_documents(documents: &str) -> Quire {
        let quire = Quire::new();
        let done = quire.pipe(&["load", "db", "c"], documents);
        assert_eq!(done.code, 0, "{done:?}");
        quire
    }
}

impl Done {
    fn of(command: &mut Command) -> Done {
        Done::from(command.output().unwrap())
    }

    fn lines(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }
}

impl From<std::process::Output> for Done {
    fn from(output: std::process::Output) -> Done {
        Done {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// One of the shared corpora; none, with a word about it, where they are absent.
fn corpus(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is absent", path.display());
    None
}
