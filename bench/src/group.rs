//! A memory cgroup for one engine: its memory and the system's cache of its files, bounded
//! together.
//!
//! Version 1 where its memory controller is mounted, else version 2. Both take root, or a directory
//! that was made over to the user.

use crate::Result;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A cgroup that is removed when this is dropped.
pub(crate) struct Group {
    dir: PathBuf,
    peak: &'static str,
}

impl Group {
    /// Makes one with at most `bytes` of memory.
    pub(crate) fn new(bytes: u64) -> Result<Group> {
        Group::make(bytes).map_err(|error| {
            format!("cannot limit memory by a cgroup, which takes root: {error}").into()
        })
    }

    fn make(bytes: u64) -> Result<Group> {
        let name = format!("quire-bench-{}", std::process::id());
        let group = match root()? {
            Root::First(root) => Group {
                dir: root.join(name),
                peak: "memory.max_usage_in_bytes",
            },
            Root::Second(root) => {
                // It may be on already, and refused to those who did not turn it on.
                let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
                Group {
                    dir: root.join(name),
                    peak: "memory.peak",
                }
            }
        };
        fs::create_dir(&group.dir)?;
        if group.peak == "memory.peak" {
            fs::write(group.dir.join("memory.max"), bytes.to_string())?;
            // A kernel without swap has no such file.
            let _ = fs::write(group.dir.join("memory.swap.max"), "0");
        } else {
            fs::write(group.dir.join("memory.limit_in_bytes"), bytes.to_string())?;
        }
        Ok(group)
    }

    /// A command that runs `program` in this cgroup.
    pub(crate) fn command(&self, program: &OsStr) -> Command {
        command_in(&self.dir, program)
    }

    /// The most memory that was in use, the system's cache included.
    pub(crate) fn peak_bytes(&self) -> Result<u64> {
        Ok(fs::read_to_string(self.dir.join(self.peak))?
            .trim()
            .parse()?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.dir);
    }
}

/// A command that runs `program` in no group: what it takes is not counted.
pub(crate) fn command_outside(program: &OsStr) -> Result<Command> {
    let (Root::First(root) | Root::Second(root)) = root()?;
    Ok(command_in(&root, program))
}

fn command_in(group: &Path, program: &OsStr) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", r#"echo $$ > "$0" && exec "$@""#]);
    command.arg(group.join("cgroup.procs")).arg(program);
    command
}

/// Where the memory controller is mounted, in which version.
enum Root {
    First(PathBuf),
    Second(PathBuf),
}

fn root() -> Result<Root> {
    let mounts = fs::read_to_string("/proc/mounts")?;
    if let Some(root) = mounted(&mounts, "cgroup", "memory") {
        return Ok(Root::First(root.to_path_buf()));
    }
    let root = mounted(&mounts, "cgroup2", "").ok_or("no cgroups are mounted")?;
    Ok(Root::Second(root.to_path_buf()))
}

/// Where a file system of this kind is mounted with this option; any options, if it is empty.
fn mounted<'a>(mounts: &'a str, kind: &str, option: &str) -> Option<&'a Path> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, found) = (fields.next()?, fields.next()?);
        let mut options = fields.next()?.split(',');
        (found == kind && (option.is_empty() || options.any(|found| found == option)))
            .then(|| Path::new(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_controller_is_found_where_it_is() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        let path =
            |kind, option| mounted(mounts, kind, option).map(|path| path.display().to_string());
        assert_eq!(path("cgroup", "memory").unwrap(), "/sys/fs/cgroup/memory");
        assert_eq!(path("cgroup2", "").unwrap(), "/sys/fs/cgroup/unified");
        assert_eq!(path("cgroup", "hugetlb"), None);
    }
}
