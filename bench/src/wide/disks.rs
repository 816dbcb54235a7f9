//! Disks for a measurement: file systems on loop devices, as slow as a hard disk or an SSD.
//!
//! The kernel's throttle limits requests and bytes per second of a device. It charges no seeks: a
//! request costs the same wherever it lies, and one of a megabyte as much as one of a page. Where
//! that matters, a loop device lies on a file that a plugin of nbdkit serves, which seeks
//! (`bench/disks/seeking.c`).

use crate::Result;
use crate::group::command_outside;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What a device does in a second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Speed {
    requests: u64,
    read_bytes: u64,
    write_bytes: u64,
    /// A seek over half of the disk, if it seeks.
    seek: Duration,
}

impl Speed {
    /// A disk that is slower in all: so that the disks are the limit of a measurement, and not a
    /// busy processor.
    pub(super) const fn slower(self, times: u64) -> Speed {
        Speed {
            requests: self.requests / times,
            read_bytes: self.read_bytes / times,
            write_bytes: self.write_bytes / times,
            seek: self.seek.saturating_mul(times as u32),
        }
    }
}

pub(super) const HDD: Speed = Speed {
    requests: 120,
    read_bytes: 100_000_000,
    write_bytes: 100_000_000,
    seek: Duration::from_millis(8),
};
pub(super) const SSD: Speed = Speed {
    requests: 5_000,
    read_bytes: 400_000_000,
    write_bytes: 300_000_000,
    seek: Duration::ZERO,
};
/// No limit: to load before the clock runs.
pub(super) const FREE: Speed = Speed {
    requests: 0,
    read_bytes: 0,
    write_bytes: 0,
    seek: Duration::ZERO,
};

/// What serves a disk that seeks.
const PLUGIN: &str = "target/seeking.so";

/// What one sector of `/sys/block/*/stat` is.
const SECTOR_BYTES: u64 = 512;
/// How long a plugin may take to serve a file.
const PATIENCE: Duration = Duration::from_secs(10);
/// A disk that does nothing for this long has settled.
const QUIET: Duration = Duration::from_millis(1_500);

/// A file system over one loop device or several, unmounted and detached when dropped.
pub(super) struct Disk {
    devices: Vec<String>,
    images: Vec<PathBuf>,
    seeking: Vec<Seeking>,
    mount: PathBuf,
}

/// A file that is served as slowly as a disk that seeks.
struct Seeking {
    file: PathBuf,
    /// Says how slowly; see the plugin.
    speed: PathBuf,
    server: Child,
}

impl Disk {
    /// One disk of `mib` MiB with ext4.
    pub(super) fn new(dir: &Path, name: &str, mib: u64) -> Result<Disk> {
        Disk::attach(dir, &[name], mib, false)?.with_ext4()
    }

    /// The same, and it seeks.
    pub(super) fn seeking(dir: &Path, name: &str, mib: u64) -> Result<Disk> {
        Disk::attach(dir, &[name], mib, true)?.with_ext4()
    }

    fn with_ext4(self) -> Result<Disk> {
        let options = ["-q", "-E", "nodiscard,lazy_itable_init=0"];
        run("mkfs.ext4", options.into_iter().chain([&*self.devices[0]]))?;
        self.mount()?;
        Ok(self)
    }

    /// Disks of `mib` MiB each that seek, as one: RAID0 by btrfs.
    pub(super) fn striped(dir: &Path, names: &[&str], mib: u64) -> Result<Disk> {
        let disk = Disk::attach(dir, names, mib, true)?;
        let options = ["-q", "-K", "-d", "raid0", "-m", "raid0"];
        let devices = disk.devices.iter().map(String::as_str);
        run("mkfs.btrfs", options.into_iter().chain(devices))?;
        disk.mount()?;
        Ok(disk)
    }

    fn attach(dir: &Path, names: &[&str], mib: u64, seeks: bool) -> Result<Disk> {
        let mount = dir.join(names.join("-"));
        fs::create_dir_all(&mount)?;
        // Dropping it takes down what is there.
        let mut disk = Disk {
            devices: Vec::new(),
            images: Vec::new(),
            seeking: Vec::new(),
            mount,
        };
        for name in names {
            let image = dir.join(format!("{name}.img"));
            File::create(&image)?.set_len(mib << 20)?;
            disk.images.push(image.clone());
            let device = match seeks {
                false => run("losetup", ["--show", "-f", text(&image)?])?,
                true => {
                    let seeking = Seeking::serve(&image)?;
                    let file = seeking.file.clone();
                    disk.seeking.push(seeking);
                    // Else the system keeps what it reads of the file.
                    run("losetup", ["--show", "--direct-io=on", "-f", text(&file)?])?
                }
            };
            disk.devices.push(device.trim().to_string());
        }
        Ok(disk)
    }

    fn mount(&self) -> Result<()> {
        run("mount", [&*self.devices[0], text(&self.mount)?]).map(drop)
    }

    /// Where it is mounted.
    pub(super) fn path(&self) -> &Path {
        &self.mount
    }

    /// Limits each of its devices.
    pub(super) fn throttle(&self, speed: Speed) -> Result<()> {
        if !self.seeking.is_empty() {
            return self.seeking.iter().try_for_each(|one| one.set(speed));
        }
        let root = Path::new("/sys/fs/cgroup/blkio");
        for device in &self.devices {
            let number = fs::read_to_string(sys(device).join("dev"))?;
            for (limit, value) in [
                ("read_iops", speed.requests),
                ("write_iops", speed.requests),
                ("read_bps", speed.read_bytes),
                ("write_bps", speed.write_bytes),
            ] {
                let file = root.join(format!("blkio.throttle.{limit}_device"));
                let line = format!("{} {value}", number.trim());
                fs::write(&file, line).map_err(|error| {
                    let file = file.display();
                    format!("{file}: {error}; disks are throttled by cgroups of version 1, as root")
                })?;
            }
        }
        Ok(())
    }

    /// Mounts it again: the system's cache of its files is empty then. No file of it is open.
    pub(super) fn forget(&self) -> Result<()> {
        run("umount", [text(&self.mount)?])?;
        self.mount()
    }

    /// Bytes read from and written to its devices so far.
    pub(super) fn bytes(&self) -> Result<(u64, u64)> {
        let mut sum = (0, 0);
        for device in &self.devices {
            let stat = fs::read_to_string(sys(device).join("stat"))?;
            let fields: Vec<u64> = stat.split_whitespace().flat_map(str::parse).collect();
            let of = |at: usize| fields.get(at).map_or(0, |sectors| sectors * SECTOR_BYTES);
            sum = (sum.0 + of(2), sum.1 + of(6));
        }
        Ok(sum)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What was not made can't be taken down.
        let _ = self.throttle(FREE);
        // A thread of a database that was just closed may still hold a file.
        let unmount = || Command::new("umount").arg(&self.mount).status();
        for _ in 0..50 {
            if unmount().is_ok_and(|status| status.success()) {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        for device in &self.devices {
            let _ = run("losetup", ["-d", device]);
        }
        self.seeking.clear();
        for image in &self.images {
            let _ = fs::remove_file(image);
        }
    }
}

impl Seeking {
    /// Serves an image under another name beside it.
    fn serve(image: &Path) -> Result<Seeking> {
        let (file, speed) = (image.with_extension("nbd"), image.with_extension("speed"));
        File::create(&file)?;
        // What it keeps of the image is no memory of the process that is measured.
        let mut command = command_outside(OsStr::new("nbdfuse"))?;
        command
            .arg(&file)
            .args(["[", "nbdkit", "--exit-with-parent"]);
        command.arg(
            fs::canonicalize(PLUGIN)
                .map_err(|error| format!("{PLUGIN}: {error}; `make -C bench/disks` builds it"))?,
        );
        for (key, path) in [("file", image), ("speed", &speed)] {
            command.arg(format!("{key}={}", text(path)?));
        }
        // Who waits for the output of this process does not wait for the server.
        let server = command.arg("]").stdout(Stdio::null()).spawn()?;
        let seeking = Seeking {
            file,
            speed,
            server,
        };
        let begun = Instant::now();
        while fs::metadata(&seeking.file)?.len() == 0 {
            if begun.elapsed() > PATIENCE {
                return Err("nbdfuse does not serve its file".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(seeking)
    }

    fn set(&self, speed: Speed) -> Result<()> {
        let line = match speed.write_bytes {
            0 => String::new(),
            bytes => format!("{} {bytes}", speed.seek.as_nanos()),
        };
        Ok(fs::write(&self.speed, line)?)
    }
}

impl Drop for Seeking {
    fn drop(&mut self) {
        let unmount = || {
            Command::new("fusermount3")
                .arg("-u")
                .arg(&self.file)
                .status()
        };
        for _ in 0..50 {
            if unmount().is_ok_and(|status| status.success()) {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        // It ends once its file is unmounted.
        let _ = self.server.wait();
        for file in [&self.file, &self.speed] {
            let _ = fs::remove_file(file);
        }
    }
}

/// Waits until nothing is read or written any more: compactions are done. Gives the moment when
/// that began.
pub(super) fn settle(disks: &[Disk]) -> Result<Instant> {
    let look = || disks.iter().map(Disk::bytes).collect::<Result<Vec<_>>>();
    for disk in disks {
        run("sync", ["-f", text(&disk.mount)?])?;
    }
    let (mut since, mut last) = (Instant::now(), look()?);
    while since.elapsed() < QUIET {
        thread::sleep(Duration::from_millis(100));
        let now = look()?;
        if now != last {
            (since, last) = (Instant::now(), now);
        }
    }
    Ok(since)
}

fn sys(device: &str) -> PathBuf {
    Path::new("/sys/block").join(device.trim_start_matches("/dev/"))
}

fn text(path: &Path) -> Result<&str> {
    Ok(path.to_str().ok_or("a path that is no text")?)
}

fn run<'a>(program: &str, words: impl IntoIterator<Item = &'a str>) -> Result<String> {
    let output = Command::new(program).args(words).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}
