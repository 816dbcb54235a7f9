//! Control groups: limits for the processes of a round, in version 1 or 2, whichever this machine
//! has.

use super::disk::need_root;
use super::trouble::{Result, Trouble, While};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// A control group of one round; removed when dropped.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    path: PathBuf,
    is_v2: bool,
}

impl ControlGroup {
    /// A group under the controller `memory` that may use `bytes` bytes, page cache included.
    ///
    /// # Errors
    /// `Skipped` if this machine has no such controller.
    pub(crate) fn memory(name: &str, bytes: u64) -> Result<ControlGroup> {
        let group = ControlGroup::make("memory", name)?;
        let limit = if group.is_v2 {
            "memory.max"
        } else {
            "memory.limit_in_bytes"
        };
        group.set(limit, &bytes.to_string())?;
        if group.is_v2 {
            // Without swap there is no such file.
            let _ = group.set("memory.swap.max", "0");
        }
        Ok(group)
    }

    /// A group under the controller for disks, which limits the writes to a device per second, in
    /// number and in bytes.
    ///
    /// # Errors
    /// `Skipped` if this machine has no such controller.
    pub(crate) fn slow_writes(
        name: &str,
        device: &str,
        per_second: u64,
        bytes_per_second: u64,
    ) -> Result<ControlGroup> {
        match ControlGroup::make("io", name) {
            Ok(group) => {
                group.set(
                    "io.max",
                    &format!("{device} wiops={per_second} wbps={bytes_per_second}"),
                )?;
                Ok(group)
            }
            Err(_) => {
                let group = ControlGroup::make("blkio", name)?;
                group.set(
                    "blkio.throttle.write_iops_device",
                    &format!("{device} {per_second}"),
                )?;
                group.set(
                    "blkio.throttle.write_bps_device",
                    &format!("{device} {bytes_per_second}"),
                )?;
                Ok(group)
            }
        }
    }

    fn make(controller: &str, name: &str) -> Result<ControlGroup> {
        need_root()?;
        let (root, is_v2) = root_of(controller).ok_or_else(|| {
            Trouble::Skipped(format!("no control group has the controller {controller}"))
        })?;
        if is_v2 {
            let _ = std::fs::write(
                root.join("cgroup.subtree_control"),
                format!("+{controller}"),
            );
        }
        let path = root.join(name);
        std::fs::create_dir(&path)
            .map_err(|error| Trouble::Skipped(format!("no control group can be made: {error}")))?;
        Ok(ControlGroup { path, is_v2 })
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        std::fs::write(self.path.join(file), value).map_err(|error| {
            Trouble::Skipped(format!("{file} of a control group can't be set: {error}"))
        })
    }

    /// The command that runs another one, so that it is in the group from its first instruction.
    pub(crate) fn wrapper(&self) -> Vec<OsString> {
        let script = format!(
            "echo $$ > '{}' && exec \"$@\"",
            self.path.join("cgroup.procs").display()
        );
        vec!["sh".into(), "-c".into(), script.into(), "sh".into()]
    }

    /// The number of processes killed because the group was out of memory.
    ///
    /// # Errors
    /// The system does not report it.
    pub(crate) fn out_of_memory_kills(&self) -> Result<u64> {
        let file = if self.is_v2 {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        let text = std::fs::read_to_string(self.path.join(file)).during(file)?;
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.unwrap_or("0").trim().parse().during(file)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a group, and returns whether it is gone. Its processes have been killed, and may still
/// be ending.
pub(crate) fn remove(path: &Path) -> bool {
    for _ in 0..100 {
        if std::fs::remove_dir(path).is_ok() {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

/// The directory of the groups of a controller, and whether they are of version 2.
fn root_of(controller: &str) -> Option<(PathBuf, bool)> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mut unified = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (path, kind, options) = (words.next()?, words.next()?, words.next()?);
        match kind {
            "cgroup" if options.split(',').any(|option| option == controller) => {
                return Some((PathBuf::from(path), false));
            }
            "cgroup2" => unified = Some(PathBuf::from(path)),
            _ => {}
        }
    }
    let unified = unified?;
    let controllers = std::fs::read_to_string(unified.join("cgroup.controllers")).ok()?;
    controllers
        .split_whitespace()
        .any(|known| known == controller)
        .then_some((unified, true))
}

/// All groups whose names begin with this.
pub(crate) fn all(prefix: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for controller in ["memory", "blkio", "io"] {
        let Some((root, _)) = root_of(controller) else {
            continue;
        };
        let entries = std::fs::read_dir(&root).into_iter().flatten().flatten();
        let named = |path: &PathBuf| is_named(path, prefix);
        all.extend(entries.map(|entry| entry.path()).filter(named));
    }
    all
}

fn is_named(path: &Path, prefix: &str) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with(prefix))
}
