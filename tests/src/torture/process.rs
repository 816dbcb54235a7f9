//! The `quire` binary, run by a round: commands to their end, and servers. No process outlives its
//! owner.
//!
//! Their standard error goes to one file of the round. A panic there is a failure, even if
//! everything else succeeded.

use super::trouble::{Result, Trouble, While, failed};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The most time that a command may take, even on a slow disk.
const LIMIT: Duration = Duration::from_secs(240);

/// The most time that a server may take to stop or to start.
const SERVER_LIMIT: Duration = Duration::from_secs(90);

/// How to run the binary.
#[derive(Debug, Clone)]
pub(crate) struct Quire {
    binary: PathBuf,
    /// The command that runs it, with its arguments: `strace`, or a shell that joins a control
    /// group first.
    wrapper: Vec<OsString>,
    /// Where standard error goes.
    messages: PathBuf,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
}

impl Quire {
    pub(crate) fn new(binary: &Path, messages: PathBuf) -> Quire {
        Quire {
            binary: binary.to_path_buf(),
            wrapper: Vec::new(),
            messages,
        }
    }

    /// The same, run by another command.
    pub(crate) fn under(&self, wrapper: Vec<OsString>) -> Quire {
        Quire {
            wrapper,
            ..self.clone()
        }
    }

    /// A command in a process group of its own, so that a Ctrl-C for this program does not end it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut words = self.wrapper.iter().map(OsString::as_os_str);
        let mut command = match words.next() {
            Some(first) => {
                let mut command = Command::new(first);
                command.args(words).arg(&self.binary);
                command
            }
            None => Command::new(&self.binary),
        };
        let messages = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.messages);
        command
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(messages.during("open the file for messages")?);
        Ok(command)
    }

    /// Runs a command to its end, and passes on its lines as they come.
    ///
    /// # Errors
    /// It does not end, or ends by a signal; an error of `each` takes precedence.
    pub(crate) fn lines(
        &self,
        arguments: &[&str],
        mut each: impl FnMut(&str) -> Result<()>,
    ) -> Result<ExitStatus> {
        let child = self.command(arguments)?.spawn().during("start quire")?;
        let mut child = Killed(child);
        let stdout = child.0.stdout.take();
        let pid = child.0.id();
        let (told, is_late) = watched(pid, LIMIT, || {
            let mut lines = BufReader::new(stdout.ok_or_else(|| io::Error::other("no output"))?);
            let mut line = String::new();
            let mut told = Ok(());
            while lines.read_line(&mut line)? > 0 {
                told = told.and_then(|()| each(line.trim_end()));
                line.clear();
            }
            io::Result::Ok(told)
        });
        let status = child.0.wait().during("wait for quire")?;
        if is_late {
            return failed(format!("quire {arguments:?} did not end within {LIMIT:?}"));
        }
        told.during("read what quire says")??;
        match status.signal() {
            Some(signal) => failed(format!("quire {arguments:?} ended by signal {signal}")),
            None => Ok(status),
        }
    }

    /// As [`lines`](Quire::lines), with all the output at the end.
    ///
    /// # Errors
    /// As [`lines`](Quire::lines).
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Done> {
        let mut stdout = String::new();
        let status = self.lines(arguments, |line| {
            stdout.push_str(line);
            stdout.push('\n');
            Ok(())
        })?;
        Ok(Done { status, stdout })
    }

    /// Runs a command that must succeed.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn ok(&self, arguments: &[&str]) -> Result<String> {
        let done = self.run(arguments)?;
        if !done.status.success() {
            return failed(format!(
                "quire {arguments:?}: {}; {}",
                done.status,
                self.last_words()
            ));
        }
        Ok(done.stdout)
    }

    /// Serves a database on a free port. `None` if the process ended, with an exit code, before it
    /// served.
    ///
    /// # Errors
    /// It ended by a signal, or does neither.
    pub(crate) fn try_serve(&self, database: &Path, arguments: &[&str]) -> Result<Option<Server>> {
        let database = text_of(database)?;
        let mut words = vec![
            "serve",
            database,
            "--create",
            "--listen",
            "127.0.0.1:0",
            "--json",
            "--quiet",
        ];
        words.extend_from_slice(arguments);
        let mut child = self.command(&words)?.spawn().during("start the server")?;
        let stdout = child.stdout.take();
        let mut child = Killed(child);
        let pid = child.0.id();
        let (line, is_late) = watched(pid, SERVER_LIMIT, || {
            let mut line = String::new();
            let mut stdout = BufReader::new(stdout.ok_or_else(|| io::Error::other("no output"))?);
            stdout.read_line(&mut line)?;
            io::Result::Ok((line, stdout))
        });
        let (line, stdout) = line.during("read the server's address")?;
        if is_late {
            return failed(format!("the server did not start within {SERVER_LIMIT:?}"));
        }
        if line.is_empty() {
            let status = child.0.wait().during("wait for the server")?;
            return match status.signal() {
                Some(signal) => failed(format!("the server ended at its start by signal {signal}")),
                None => Ok(None),
            };
        }
        let told: serde_json::Value =
            serde_json::from_str(&line).during("read the server's address")?;
        let address = told["listening"].as_str().unwrap_or_default();
        let address = address
            .trim_start_matches("http://")
            .parse()
            .during("read the server's address")?;
        // Its later output is not needed, but must be read.
        let mut stdout = stdout.into_inner();
        thread::spawn(move || io::copy(&mut stdout, &mut io::sink()));
        Ok(Some(Server { child, address }))
    }

    /// Serves a database, which must work.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn serve(&self, database: &Path, arguments: &[&str]) -> Result<Server> {
        match self.try_serve(database, arguments)? {
            Some(server) => Ok(server),
            None => failed(format!("the server did not start: {}", self.last_words())),
        }
    }

    /// Fails if any process of the round panicked.
    ///
    /// # Errors
    /// One did, or the file can't be read.
    pub(crate) fn check_messages(&self) -> Result<()> {
        match std::fs::read(&self.messages) {
            Ok(messages) => {
                let messages = String::from_utf8_lossy(&messages);
                match messages.lines().find(|line| line.contains("panicked at")) {
                    Some(line) => failed(format!("a process panicked: {line}")),
                    None => Ok(()),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error).during("read the messages"),
        }
    }

    /// The end of its standard error.
    pub(crate) fn last_words(&self) -> String {
        let mut messages = Vec::new();
        let _ = File::open(&self.messages).and_then(|mut file| file.read_to_end(&mut messages));
        let messages = String::from_utf8_lossy(&messages);
        let lines: Vec<_> = messages.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

/// `quire serve`, killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Killed,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// SIGKILL. Fails if the process had ended before by itself.
    ///
    /// # Errors
    /// It had.
    pub(crate) fn kill(&mut self) -> Result<()> {
        if let Some(status) = self.child.0.try_wait().during("wait for the server")? {
            return failed(format!("the server ended by itself: {status}"));
        }
        self.child.0.kill().during("kill the server")?;
        self.child.0.wait().during("wait for the server")?;
        Ok(())
    }

    /// SIGTERM, as an operator would. It must end, with any exit code: the disk may be gone.
    ///
    /// # Errors
    /// It does not end, or ends by a signal.
    pub(crate) fn stop(&mut self) -> Result<ExitStatus> {
        signal(self.pid(), "TERM");
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.0.try_wait().during("wait for the server")? {
                return match status.signal() {
                    Some(signal) => failed(format!("the server ended by signal {signal}")),
                    None => Ok(status),
                };
            }
            if begun.elapsed() > SERVER_LIMIT {
                return failed(format!("the server did not stop within {SERVER_LIMIT:?}"));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A process that is killed when dropped.
#[derive(Debug)]
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `act`, which ends when a process ends, and kills the process after a while. Returns whether
/// it had to.
fn watched<T>(pid: u32, limit: Duration, work: impl FnOnce() -> T) -> (T, bool) {
    let (done, waiting) = mpsc::channel::<()>();
    thread::scope(|threads| {
        let dog = threads.spawn(move || {
            let is_late = waiting.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if is_late {
                signal(pid, "KILL");
            }
            is_late
        });
        let result = work();
        drop(done);
        (result, dog.join().unwrap_or(false))
    })
}

/// Sends a process a signal, by its name.
fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status();
}

/// Runs a program of the system that must succeed, and returns its output.
///
/// # Errors
/// It is not there, or fails.
pub(crate) fn system(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .process_group(0)
        .stdin(Stdio::null())
        .output()
        .during(format!("run {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return failed(format!(
            "{program} {arguments:?}: {}: {}",
            output.status,
            said.trim()
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A path as an argument.
///
/// # Errors
/// It is not text.
pub(crate) fn text_of(path: &Path) -> Result<&str> {
    path.to_str()
        .ok_or_else(|| Trouble::Failed(format!("{} is not text", path.display())))
}
