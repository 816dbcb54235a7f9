//! System calls that fail: `strace -e inject=`, around a process from its first instruction.
//!
//! A chosen call is not carried out and returns an error, as if the machine had failed. Lies that
//! no machine tells are excluded: a file that exists is never reported as missing, and no write
//! that was not done is reported as done.

use super::disk::need_program;
use super::random::Random;
use super::trouble::{Result, Trouble};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls that fail together, and the errors they can fail with.
const FAULTS: [(&str, &[&str]); 10] = [
    ("fsync,fdatasync", &["EIO", "ENOSPC"]),
    ("fdatasync", &["EIO", "EDQUOT"]),
    ("pwrite64", &["EIO", "ENOSPC", "EINTR"]),
    ("fallocate", &["EIO", "ENOSPC", "EINTR"]),
    ("pread64,preadv2", &["EIO", "EINTR"]),
    // A read that would have to wait, and a file system where all do.
    ("preadv2", &["EAGAIN", "EOPNOTSUPP"]),
    ("openat", &["EIO", "EMFILE", "ENOSPC"]),
    ("rename,renameat,renameat2", &["EIO", "ENOSPC"]),
    ("unlink,unlinkat", &["EIO"]),
    ("ftruncate", &["EIO"]),
];

/// The calls that fail, and the file that lists them.
#[derive(Debug)]
pub(crate) struct Faults {
    /// The argument of strace.
    inject: String,
    trace: PathBuf,
}

impl Faults {
    /// Any calls, at any time: once, repeatedly, or from then on. strace counts the calls of each
    /// thread separately.
    ///
    /// # Errors
    /// `Skipped` if there is no strace, or it may not trace.
    pub(crate) fn any(random: &mut Random, dir: &Path) -> Result<Faults> {
        need_program("strace")?;
        let works = Command::new("strace")
            .args(["-f", "-o", "/dev/null", "true"])
            .output();
        if !works.is_ok_and(|output| output.status.success()) {
            return Err(Trouble::Skipped("strace may not trace here".into()));
        }
        let (calls, errors) = random.pick(&FAULTS);
        let error = random.pick(errors);
        let most = random.pick(&[4, 30, 300]);
        let first = 1 + random.below(most);
        let when = match random.below(3) {
            0 => first.to_string(),
            // A call that is interrupted every time is retried for ever, as it should be.
            1 if error != "EINTR" => format!("{first}+"),
            _ => format!("{first}+{}", 2 + random.below(most)),
        };
        Ok(Faults {
            inject: format!("{calls}:error={error}:when={when}"),
            trace: dir.join("trace"),
        })
    }

    /// The command that runs another one under strace. strace is its grandchild: the process that
    /// was started is the command.
    pub(crate) fn wrapper(&self) -> Vec<OsString> {
        let calls = self.inject.split(':').next().unwrap_or_default();
        let mut words: Vec<OsString> = ["strace", "-D", "-f", "-qq", "--seccomp-bpf", "-A", "-o"]
            .map(OsString::from)
            .to_vec();
        words.push(self.trace.clone().into());
        words.extend([
            format!("--trace={calls}").into(),
            format!("--inject={}", self.inject).into(),
        ]);
        words
    }

    /// As a person would type it.
    pub(crate) fn shown(&self) -> &str {
        &self.inject
    }

    /// The number of calls made to fail so far.
    pub(crate) fn count(&self) -> u64 {
        let trace = std::fs::read(&self.trace).unwrap_or_default();
        let trace = String::from_utf8_lossy(&trace);
        trace
            .lines()
            .filter(|line| line.contains("(INJECTED)"))
            .count() as u64
    }
}
