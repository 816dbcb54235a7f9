//! The `quire` binary as users run it: commands, and a server on a free port.

use crate::http::Connection;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

/// The directory of the project.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The output directory of cargo for this profile, which holds `quire`.
fn profile_dir() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().to_path_buf()
}

/// The directory of files that tests make once and use in later runs.
pub(crate) fn target_dir() -> PathBuf {
    profile_dir().parent().unwrap().to_path_buf()
}

/// The binary. `cargo test --workspace` has built it; a run of this crate's tests alone may find
/// none, or an old one, and builds it.
pub(crate) fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let binary = profile_dir().join("quire");
        if !is_fresh(&binary) {
            let profile = if profile_dir().ends_with("release") {
                "release"
            } else {
                "test"
            };
            let status = Command::new(env!("CARGO"))
                .args([
                    "build",
                    "--quiet",
                    "--locked",
                    "--package",
                    "quire-cli",
                    "--bin",
                    "quire",
                    "--profile",
                    profile,
                ])
                .arg("--target-dir")
                .arg(target_dir())
                .current_dir(root())
                .status()
                .unwrap();
            assert!(status.success(), "quire can't be built");
        }
        binary
    })
}

/// The optimised binary if there is a fresh one, for long tests; else [`binary`].
pub(crate) fn fast_binary() -> PathBuf {
    let release = target_dir().join("release/quire");
    if is_fresh(&release) {
        release
    } else {
        binary().to_path_buf()
    }
}

/// Whether the binary is newer than all that it is built from.
fn is_fresh(binary: &Path) -> bool {
    let Ok(built) = binary.metadata().and_then(|metadata| metadata.modified()) else {
        return false;
    };
    let lock = root()
        .join("Cargo.lock")
        .metadata()
        .unwrap()
        .modified()
        .unwrap();
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    let sources = crates
        .map(|entry| newest(&entry.unwrap().path().join("src")))
        .max()
        .unwrap();
    built > sources && built > lock
}

fn newest(dir: &Path) -> SystemTime {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let modified = match entry.file_type().unwrap().is_dir() {
            true => self::newest(&entry.path()),
            false => entry.metadata().unwrap().modified().unwrap(),
        };
        newest = newest.max(modified);
    }
    newest
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A command with these arguments, its input closed, its output caught.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str]) -> Done {
    run_with_input(arguments, b"")
}

/// Runs a command to its end, with this on standard input.
pub(crate) fn run_with_input(arguments: &[&str], input: &[u8]) -> Done {
    let mut child = command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that fails early need not read its input.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    Done {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs a command that must succeed, and returns its output.
#[track_caller]
pub(crate) fn ok(arguments: &[&str]) -> String {
    let done = run(arguments);
    assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
    done.stdout
}

/// `quire serve`, stopped when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
    memcached: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
}

impl Server {
    /// Serves a database on a free port.
    pub(crate) fn start(database: &Path, arguments: &[&str]) -> Server {
        Server::start_binary(binary(), database, arguments)
    }

    /// As [`start`](Server::start), with another binary.
    pub(crate) fn start_binary(binary: &Path, database: &Path, arguments: &[&str]) -> Server {
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .arg(database)
            .args(["--create", "--listen", "127.0.0.1:0"])
            .args(arguments);
        Server::launch(command)
    }

    /// Runs a command that serves, until it prints its address.
    pub(crate) fn launch(mut command: Command) -> Server {
        let mut child = command
            .args(["--json", "--quiet"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("the server did not start: {line:?}"));
        let address = told["listening"]
            .as_str()
            .unwrap()
            .split_once("://")
            .unwrap()
            .1
            .parse()
            .unwrap();
        let memcached = told["memcached"].as_str();
        let memcached = memcached.map(|address| address.parse().unwrap());
        let metrics = told["metrics"].as_str();
        let metrics = metrics.map(|url| url.split_once("://").unwrap().1.parse().unwrap());
        Server {
            child,
            stdout,
            address,
            memcached,
            metrics,
        }
    }

    /// Serves a database on a free port for HTTP and another for memcached.
    pub(crate) fn start_memcached(database: &Path, arguments: &[&str]) -> Server {
        let memcached = ["--memcached", "127.0.0.1:0"];
        Server::start(database, &[&memcached, arguments].concat())
    }

    /// The address of the memcached port.
    pub(crate) fn memcached(&self) -> SocketAddr {
        self.memcached.unwrap()
    }

    /// The address of the port of metrics.
    pub(crate) fn metrics(&self) -> SocketAddr {
        self.metrics.unwrap()
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address).unwrap()
    }

    /// One request on a connection of its own: the status, and the answer as JSON.
    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.connect().json(method, path, body.as_bytes())
    }

    /// The peak resident memory of the process, in bytes.
    pub(crate) fn peak_memory_bytes(&self) -> u64 {
        peak_memory_bytes(self.child.id())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Stops it as an operator would; it must end soon, with success.
    pub(crate) fn stop(mut self) {
        signal(self.pid(), "TERM");
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the server does not stop"
            );
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(status.success(), "the server ended with {status}");
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends, and reads until `end` has come.
pub(crate) fn exchange(stream: &mut TcpStream, sent: &str, end: &str) {
    stream.write_all(sent.as_bytes()).unwrap();
    let (mut answer, mut buffer) = (String::new(), [0; 4096]);
    while !answer.contains(end) {
        let bytes = stream.read(&mut buffer).unwrap();
        assert!(bytes > 0, "closed before {end:?}: {answer:?}");
        answer.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
    }
}

/// Lets this process open as many connections as the system allows. The soft limit is 1,024 as a
/// rule.
pub(crate) fn use_all_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, all).unwrap();
}

/// Sends a process a signal, by its name.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

/// The peak resident memory of a process, in bytes.
pub(crate) fn peak_memory_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}
