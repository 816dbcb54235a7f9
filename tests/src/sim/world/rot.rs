//! Bit rot: while the database is open, and in a copy of one that is closed.

use super::World;
use super::trouble::{Reads, Trouble};
use crate::sim::compare::{database_exists, may_verify};
use std::path::PathBuf;

/// A file with a changed bit.
#[derive(Debug)]
pub(super) struct Rotten {
    path: PathBuf,
    bit_index: u64,
    /// All of its bytes, with the change.
    bytes: Vec<u8>,
}

impl World {
    /// Changes a bit. Answers stay right, or are errors that report damage.
    pub(super) fn rot(&mut self, seed: u64) {
        let Some((path, bit_index)) = self.env.rot(seed) else {
            return;
        };
        let bytes = self.env.read_all(&path).unwrap();
        self.rotten.push(Rotten {
            path,
            bit_index,
            bytes,
        });
        self.reads = Reads::Damaged;
        self.allow_faults();
    }

    /// Changes the bits back, the last first, in files that still exist. If another file has
    /// replaced one, a crash may bring the old one back.
    pub(super) fn undo_rot(&mut self) {
        for index in (0..self.rotten.len()).rev() {
            let rotten = &self.rotten[index];
            let now = self.env.read_all(&rotten.path);
            if now.is_ok_and(|now| now.starts_with(&rotten.bytes)) {
                self.env.flip_bit(&rotten.path, rotten.bit_index).unwrap();
                self.rotten.remove(index);
            }
        }
    }

    /// Closes the database and changes a bit in a copy of it: either a verification of the copy
    /// names the file, or all answers of the copy are right.
    pub(super) fn verify_rotten(&mut self, seed: u64) {
        self.close();
        if self.env.crashed() || !database_exists(&self.env) {
            return;
        }
        // A file whose sync failed may lose its footer in a crash, and a copy is what a crash
        // leaves. That loses no record.
        let before = may_verify(&self.env.after_crash(seed), &self.volumes);
        let before = before.unwrap().damage;
        let copy = self.copy(seed);
        if let Some((path, bit_index)) = copy.env.rot(seed) {
            let report = may_verify(&copy.env.after_crash(seed), &self.volumes);
            let (damage, unreadable) = match report {
                Ok(report) => (report.damage, false),
                Err(error) => {
                    copy.accept(&error, "verify what is damaged");
                    (Vec::new(), true)
                }
            };
            let named = damage.iter().any(|one| path.starts_with(&one.file));
            let mut copy = copy;
            copy.check_all();
            // Damage that was reported before may not be reported any more: the bit may be in a
            // torn footer.
            let harmless = copy.excused.get() == 0 && damage.iter().all(|one| before.contains(one));
            assert!(
                named || unreadable || harmless,
                "bit {bit_index} of {} changed: {} errors, and verify found {damage:?}",
                path.display(),
                copy.excused.get()
            );
        }
        self.recover("after a verification");
    }

    /// The same world on a copy of the machine, which may be damaged in any way. The database must
    /// be closed.
    fn copy(&self, seed: u64) -> World {
        let mut copy = World {
            env: self.env.after_crash(seed),
            collections: self.collections.clone(),
            wide: self.wide.clone(),
            options: self.options.clone(),
            volumes: self.volumes.clone(),
            ..World::new(&super::History::default())
        };
        (copy.trouble, copy.reads) = (Trouble::Any, Reads::Damaged);
        copy
    }
}
