//! What a killed run left: processes, mounts, loop devices, control groups, files.
//!
//! The directory of a run is `quire-torture-PID`, and the names of its control groups begin with
//! that too. If no process has that number any more, its files have no owner. Processes, mounts and
//! loop devices are searched only under the directory where this run works.

use super::cgroup;
use super::process::system;
use super::trouble::{Result, While};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

const PREFIX: &str = "quire-torture-";

/// The name of the directory of this process, and the prefix of its control groups.
pub fn own_name() -> String {
    format!("{PREFIX}{}", std::process::id())
}

/// Removes what ended runs left. Returns what it removed.
///
/// # Errors
/// A directory can't be listed or removed.
pub(crate) fn remove(base: &Path) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for entry in std::fs::read_dir(base).during(base.display())? {
        let dir = entry.during(base.display())?.path();
        let name = dir
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if is_orphan(name) {
            take_down(&dir);
            std::fs::remove_dir_all(&dir).during(dir.display())?;
            removed.push(dir.display().to_string());
        }
    }
    for group in cgroup::all(PREFIX) {
        let name = group
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if is_orphan(name) && cgroup::remove(&group) {
            removed.push(group.display().to_string());
        }
    }
    Ok(removed)
}

/// Ends the processes, and takes down the mounts and the loop devices, whose names begin with this
/// directory.
pub fn take_down(dir: &Path) {
    for pid in processes_of(dir) {
        let _ = Command::new("kill")
            .args(["-s", "KILL", &pid.to_string()])
            .status();
    }
    thread::sleep(Duration::from_millis(50));
    for mount in mounts_under(dir) {
        let _ = system("umount", &["-l", &mount]);
    }
    let loops = system("losetup", &["-n", "-O", "NAME,BACK-FILE", "-l"]).unwrap_or_default();
    for line in loops.lines() {
        if let Some((device, file)) = line.split_once(char::is_whitespace)
            && Path::new(file.trim()).starts_with(dir)
        {
            let _ = system("losetup", &["-d", device]);
        }
    }
}

/// Whether the name is one of ours and its process is no more.
fn is_orphan(name: &str) -> bool {
    let pid = name
        .strip_prefix(PREFIX)
        .map(|rest| rest.split('-').next().unwrap_or_default());
    pid.and_then(|pid| pid.parse::<u32>().ok())
        .is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// Processes that were started with something of this directory as an argument.
fn processes_of(dir: &Path) -> Vec<u32> {
    let Some(dir) = dir.to_str() else {
        return Vec::new();
    };
    let dir = format!("{dir}/");
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        *pid != own
            && words
                .split(|byte| *byte == 0)
                .any(|word| word.starts_with(dir.as_bytes()))
    })
    .collect()
}

/// Mount points below a directory, the innermost first.
fn mounts_under(dir: &Path) -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let below = points.filter(|point| PathBuf::from(point).starts_with(dir));
    let mut below: Vec<_> = below.map(str::to_owned).collect();
    below.reverse();
    below
}
