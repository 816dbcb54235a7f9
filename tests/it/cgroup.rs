//! A memory cgroup: the system kills what takes more in it than its limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// A memory cgroup below that of the test. Removed when dropped, after all in it have ended.
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    /// A cgroup with a limit; `None` if the machine does not let the test make one.
    pub(crate) fn new(name: &str, bytes: u64) -> Option<Cgroup> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let name = format!("quire-test-{}-{name}", std::process::id());
        let first = own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let is_memory = controllers
                .split(',')
                .any(|controller| controller == "memory");
            is_memory.then(|| Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/')))
        });
        let second = own.lines().find_map(|line| line.strip_prefix("0::/"));
        let second = second.map(|path| Path::new("/sys/fs/cgroup").join(path));
        let limits = [(first, "memory.limit_in_bytes"), (second, "memory.max")];
        limits.into_iter().find_map(|(parent, limit)| {
            let dir = parent?.join(&name);
            fs::create_dir(&dir).ok()?;
            let cgroup = Cgroup(dir);
            // A file that does not exist is not made: the system refuses.
            fs::write(cgroup.0.join(limit), bytes.to_string()).ok()?;
            Some(cgroup)
        })
    }

    /// A command that runs in it.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        let script = "echo $$ > \"$0\" && exec \"$@\"";
        let processes = self.0.join("cgroup.procs");
        command.args(["-c", script]).arg(processes).arg(program);
        command
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..500 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}
