//! The machine and this process, as Linux shows them in `/proc`. What is not there is unknown.

use std::collections::BTreeMap;
use std::path::Path;

use quiredb::Env;
use rustix::fs::{Mode, OFlags};

/// The clock ticks of a second in `/proc`, which Linux fixes for all programs.
const TICKS: u64 = 100;

/// The most that is read of a text.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// The unit of sizes in `/proc`.
const KB: u64 = 1 << 10;

/// Figures of the machine and of this process.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    /// Averages of 1, 5 and 15 minutes.
    pub(super) load: Option<[f64; 3]>,
    pub(super) memory_bytes: Option<u64>,
    /// What programs can have of it.
    pub(super) memory_free_bytes: Option<u64>,
    pub(super) swap_bytes: Option<u64>,
    pub(super) swap_free_bytes: Option<u64>,
    /// Of this process.
    pub(super) threads: Option<u64>,
    pub(super) virtual_bytes: Option<u64>,
    pub(super) files: Option<u64>,
    pub(super) files_max: Option<u64>,
    /// The CPU time that it has had.
    pub(super) cpu_millis: Option<u64>,
}

impl Machine {
    /// Blocks.
    pub(super) fn read(env: &dyn Env) -> Machine {
        let memory = fields(&text("/proc/meminfo"));
        let of_process = fields(&text("/proc/self/status"));
        let kilobytes = |fields: &BTreeMap<String, u64>, name: &str| {
            fields.get(name).map(|count| count.saturating_mul(KB))
        };
        Machine {
            load: load(&text("/proc/loadavg")),
            memory_bytes: kilobytes(&memory, "MemTotal"),
            memory_free_bytes: kilobytes(&memory, "MemAvailable"),
            swap_bytes: kilobytes(&memory, "SwapTotal"),
            swap_free_bytes: kilobytes(&memory, "SwapFree"),
            threads: of_process.get("Threads").copied(),
            virtual_bytes: kilobytes(&of_process, "VmSize"),
            files: open_files(env),
            files_max: files_max(&text("/proc/self/limits")),
            cpu_millis: cpu_millis(&text("/proc/self/stat")),
        }
    }

    /// How much of the memory is used, in percent.
    pub(super) fn memory_percent(&self) -> Option<u64> {
        let (all, free) = (self.memory_bytes?, self.memory_free_bytes?);
        (all.saturating_sub(free) * 100).checked_div(all)
    }
}

/// A text of `/proc`, whose length is not known before; empty if it can't be read.
fn text(path: &str) -> String {
    let mut bytes = Vec::new();
    let Ok(file) = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return String::new();
    };
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = rustix::io::read(&file, &mut piece) {
        bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
        if bytes.len() > TEXT_BYTES_MAX {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Lines such as `MemTotal:  123 kB`: numbers by name.
fn fields(text: &str) -> BTreeMap<String, u64> {
    let field = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let number = rest.split_whitespace().next()?.parse().ok()?;
        Some((name.to_owned(), number))
    };
    text.lines().filter_map(field).collect()
}

fn load(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

/// The files, sockets and pipes that are open.
fn open_files(env: &dyn Env) -> Option<u64> {
    let names = env.list(Path::new("/proc/self/fd")).ok()?;
    Some(names.len() as u64)
}

fn files_max(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let limit = lines.find_map(|line| line.strip_prefix("Max open files"))?;
    limit.split_whitespace().next()?.parse().ok()
}

/// The CPU time, in and for the process, of a line whose second field is a name in parentheses.
fn cpu_millis(text: &str) -> Option<u64> {
    let rest = text.rsplit_once(')')?.1;
    // Of the fields behind the name the 12th and the 13th.
    let mut numbers = rest.split_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((user + system) * 1000 / TICKS)
}

/// A file system.
#[derive(Debug, Clone)]
pub(super) struct FileSystem {
    pub(super) path: String,
    pub(super) mount: String,
    pub(super) kind: String,
    pub(super) total_bytes: u64,
    pub(super) free_bytes: u64,
    /// What a program can have of it.
    pub(super) available_bytes: u64,
}

impl FileSystem {
    /// That which a directory is in. Blocks.
    pub(super) fn of(path: &str) -> Option<FileSystem> {
        let figures = rustix::fs::statvfs(path).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(figures.f_frsize);
        let whole = Path::new(path).canonicalize().ok()?;
        let mounts = text("/proc/self/mounts");
        let (mount, kind) = mount_of(&mounts, &whole.to_string_lossy());
        Some(FileSystem {
            path: path.to_owned(),
            mount,
            kind,
            total_bytes: bytes(figures.f_blocks),
            free_bytes: bytes(figures.f_bfree),
            available_bytes: bytes(figures.f_bavail),
        })
    }
}

/// The mount point that a path is below, with its device, and the kind of its file system.
fn mount_of(mounts: &str, path: &str) -> (String, String) {
    let parts = |line: &str| {
        let mut parts = line.split_whitespace().map(str::to_owned);
        Some((parts.next()?, parts.next()?, parts.next()?))
    };
    let is_above = |point: &str| {
        let rest = path.strip_prefix(point.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let above = mounts.lines().filter_map(parts);
    let above = above.filter(|(_, point, _)| is_above(point));
    // The last of those mounted over one another is seen.
    let found = above.max_by_key(|(_, point, _)| point.len());
    found.map_or_else(
        || ("unknown".to_owned(), "unknown".to_owned()),
        |(device, point, kind)| (format!("{point} ({device})"), kind),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_shows_is_read_and_what_it_lacks_is_unknown() {
        assert_eq!(load("0.50 1.25 2.00 3/400 5\n"), Some([0.5, 1.25, 2.0]));
        assert_eq!(load(""), None);
        let memory = fields("MemTotal:  1000 kB\nMemAvailable: 250 kB\nHugePages: x\n");
        assert_eq!((memory["MemTotal"], memory.len()), (1000, 2));
        let machine = Machine {
            memory_bytes: Some(1000),
            memory_free_bytes: Some(250),
            ..Machine::default()
        };
        assert_eq!(machine.memory_percent(), Some(75));
        assert_eq!(Machine::default().memory_percent(), None);
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0";
        assert_eq!(cpu_millis(stat), Some(2000));
        assert_eq!(cpu_millis("7 (a) S"), None);
        let limits = "Limit  Soft Limit\nMax open files   1024   4096   files\n";
        assert_eq!(files_max(limits), Some(1024));
    }

    #[test]
    fn a_path_is_on_the_deepest_mount_above_it() {
        let mounts = "/dev/a / ext4 rw 0 0\n/dev/b /data xfs rw 0 0\n/dev/c /data/x tmpfs rw 0 0\n";
        let on = |path| mount_of(mounts, path);
        assert_eq!(on("/data/db"), ("/data (/dev/b)".into(), "xfs".into()));
        assert_eq!(on("/database"), ("/ (/dev/a)".into(), "ext4".into()));
        assert_eq!(on("/data/x"), ("/data/x (/dev/c)".into(), "tmpfs".into()));
        assert_eq!(mount_of("", "/a").1, "unknown");
    }
}
