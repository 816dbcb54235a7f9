//! A disk for one round: a file system on a loop device, which can have a power cut.
//!
//! A power cut is the shutdown call of the file system (`xfs_io -x -c shutdown`). From that moment
//! nothing is written to the device, all I/O fails, and the page cache is lost. So after the next
//! mount the disk holds what was synced, and what the file system had written back by itself. The
//! device is a file, so a cut does not test that the disk honours a flush; it tests that Quire
//! requests every flush that it needs.
//!
//! With ext4 and xfs, an fsync that is under way at the shutdown may return without an error though
//! its data is lost (any program that writes, syncs and notes that sees this once in some tens of
//! cuts). After a real power cut no program would see that answer. So an answer after a cut began
//! does not count as an acknowledgement: [`Disk::cut`] returns the moment.

use super::process::{system, text_of};
use super::trouble::{Result, Trouble, While, failed};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// A file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileSystem {
    Ext4,
    Xfs,
}

impl FileSystem {
    pub(crate) fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
        }
    }
}

/// A mounted disk; unmounted and detached when dropped. Its image stays.
#[derive(Debug)]
pub(crate) struct Disk {
    /// The loop device, as `/dev/loop0`.
    pub(crate) device: String,
    pub(crate) mount: PathBuf,
}

impl Disk {
    /// Makes a disk of `mib` MiB in a directory: `disk.img`, mounted on `mnt`. xfs needs 300.
    ///
    /// # Errors
    /// `Skipped` if this machine can't: not root, no loop devices, or a program is missing.
    pub(crate) fn make(dir: &Path, file_system: FileSystem, mib: u64) -> Result<Disk> {
        need_root()?;
        let mkfs = format!("mkfs.{}", file_system.name());
        for program in [mkfs.as_str(), "losetup", "mount", "umount", "xfs_io"] {
            need_program(program)?;
        }
        let (image, mount) = (dir.join("disk.img"), dir.join("mnt"));
        std::fs::create_dir_all(&mount).during("make the mount point")?;
        let file = File::create(&image).during("make the disk's image")?;
        file.set_len(mib << 20).during("make the disk's image")?;
        let device = system("losetup", &["--show", "-f", text_of(&image)?])
            .map_err(|error| Trouble::Skipped(format!("no loop device can be had ({error})")))?;
        // From here on dropping it takes it down, mounted or not.
        let disk = Disk { device, mount };
        let options: &[&str] = match file_system {
            FileSystem::Ext4 => &["-q", "-E", "nodiscard,lazy_itable_init=0"],
            FileSystem::Xfs => &["-q", "-K", "-f"],
        };
        let mut words = options.to_vec();
        words.push(&disk.device);
        system(&mkfs, &words)?;
        disk.mount().map_err(|error| {
            Trouble::Skipped(format!("{} can't be mounted ({error})", file_system.name()))
        })?;
        Ok(disk)
    }

    fn mount(&self) -> Result<()> {
        system("mount", &[&self.device, text_of(&self.mount)?]).map(drop)
    }

    fn unmount(&self) -> Result<()> {
        let mount = text_of(&self.mount)?;
        let mut result = Ok(());
        // A process that had files open on it may still be ending.
        for _ in 0..50 {
            match system("umount", &[mount]) {
                Ok(_) => return Ok(()),
                Err(error) => result = Err(error),
            }
            thread::sleep(Duration::from_millis(100));
        }
        result
    }

    /// Cuts the power. If `flushes_journal`, the journal that the file system holds in memory is
    /// written first, so its metadata may be newer on disk than the data. Returns the moment when
    /// the cut began.
    ///
    /// # Errors
    /// It can't be cut.
    pub(crate) fn cut(&self, flushes_journal: bool) -> Result<Instant> {
        let command = if flushes_journal {
            "shutdown -f"
        } else {
            "shutdown"
        };
        let begun = Instant::now();
        system("xfs_io", &["-x", "-c", command, text_of(&self.mount)?])?;
        Ok(begun)
    }

    /// Mounts it again. The processes that used it have ended.
    ///
    /// # Errors
    /// It can't be mounted again.
    pub(crate) fn restart(&self) -> Result<()> {
        self.unmount()?;
        self.mount()
    }

    /// The numbers of the device, as control groups know it: `7:0`.
    ///
    /// # Errors
    /// The system does not tell.
    pub(crate) fn numbers(&self) -> Result<String> {
        let name = self.device.trim_start_matches("/dev/");
        let numbers = std::fs::read_to_string(format!("/sys/block/{name}/dev"));
        Ok(numbers
            .during("get the numbers of the device")?
            .trim()
            .to_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if is_mounted(&self.mount) {
            let _ = self.unmount();
        }
        let _ = system("losetup", &["-d", &self.device]);
    }
}

/// Whether a file system is mounted there. `mountpoint` would query the file system itself, which
/// fails after a cut.
fn is_mounted(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1).map(Path::new) == Some(path))
}

/// # Errors
/// `Skipped` if this is not root.
pub(crate) fn need_root() -> Result<()> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(Trouble::Skipped("needs root".into())),
    }
}

/// # Errors
/// `Skipped` if there is no such program.
pub(crate) fn need_program(name: &str) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).any(|dir| dir.join(name).exists()) {
        true => Ok(()),
        false => Err(Trouble::Skipped(format!("needs {name}"))),
    }
}

/// # Errors
/// Fewer than `mib` MiB are free where the round works.
pub(crate) fn need_room(dir: &Path, mib: u64) -> Result<()> {
    let room = rustix::fs::statvfs(dir).during("get the free space")?;
    match room.f_bavail.saturating_mul(room.f_frsize) >> 20 {
        free if free < mib => failed(format!(
            "{mib} MiB are needed in {}, {free} are free",
            dir.display()
        )),
        _ => Ok(()),
    }
}
