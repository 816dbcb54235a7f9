//! RocksDB, by a program of its own: `bench/peers/kv/wide-rocksdb.cc`.

use super::Task;
use crate::Result;
use std::path::Path;
use std::process::Command;

/// Does a phase of it, with its tables on one disk and its log on another. The sizes are rows, the
/// bytes of each, overwrites, and bytes of memory.
pub(super) fn run(task: &Task, phase: &str, disks: [&Path; 2], sizes: [u64; 4]) -> Result<()> {
    let program = task.sizes.peers.join("wide-rocksdb");
    let mut command = Command::new(&program);
    command.arg(phase);
    command.args([disks[0].join("db"), disks[1].join("db-log")]);
    let status = command.args(sizes.map(|size| size.to_string())).status();
    let status = status.map_err(|error| format!("{}: {error}", program.display()))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("RocksDB, {phase}: {status}").into()),
    }
}
