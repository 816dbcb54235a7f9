//! What the machine does to the database, and which errors that excuses.

use super::World;
use quire_env::{Env, Fault};
use quiredb::{Error, ErrorKind};
use std::path::Path;

/// Room on a disk that does not fill.
const ROOMY: u64 = 1 << 40;

/// What may go wrong just now. It lasts until the machine is well and the database was opened again, or, for a full
/// disk, until there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// Nothing: any error is a failure of the test.
    None,
    /// The disk may be full: errors are `Full`, and nothing is read-only for that.
    Full,
    /// Any step may fail.
    Any,
}

impl World {
    /// Fails the test unless this error is what the trouble there is may cause.
    #[track_caller]
    pub(super) fn accept(&self, error: &Error, doing: &str) {
        if self.env.crashed() {
            return;
        }
        let kind = error.kind();
        match self.trouble {
            Trouble::None => panic!("{doing}: {error} ({kind:?}), on a machine that is well"),
            Trouble::Full => assert_eq!(kind, ErrorKind::Full, "{doing} on a full disk: {error}"),
            // A fault is not damage, and nothing of what was asked for was wrong.
            Trouble::Any => assert!(
                matches!(
                    kind,
                    ErrorKind::Io | ErrorKind::Full | ErrorKind::ReadOnly | ErrorKind::Closed
                ),
                "{doing} on a failing machine: {error} ({kind:?})"
            ),
        }
    }

    /// As [`accept`](World::accept), of a call's outcome. None after an error.
    #[track_caller]
    pub(super) fn accepted<T>(&self, outcome: quiredb::Result<T>, doing: &str) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                self.accept(&error, doing);
                None
            }
        }
    }

    /// A failure is planned, before or in between operations: any error is allowed from now on.
    pub(crate) fn allow_faults(&mut self) {
        self.trouble = Trouble::Any;
    }

    pub(super) fn crash_in(&mut self, steps: u32, seed: u64) {
        self.env.crash_at(self.env.operations() + u64::from(steps));
        self.crash_seed = seed;
    }

    pub(super) fn fail_in(&mut self, steps: u32, full: bool, lasting: bool) {
        let fault = if full { Fault::Enospc } else { Fault::Eio };
        let step = self.env.operations() + u64::from(steps);
        match lasting {
            true => self.env.fail_from(step, fault),
            false => self.env.fail_at(step, fault),
        }
        self.allow_faults();
    }

    pub(super) fn fail_syncs(&mut self) {
        self.env.fail_syncs(true);
        self.allow_faults();
    }

    pub(super) fn fill(&mut self, spare: u32) {
        self.env.set_capacity(ROOMY);
        let used = ROOMY - self.env.free_bytes(Path::new("/")).unwrap();
        self.env.set_capacity(used + u64::from(spare));
        self.filled = true;
        self.trouble = self.trouble.max(Trouble::Full);
    }

    pub(super) fn heal(&mut self) {
        // This forgets a planned crash, too.
        self.env.heal();
        self.env.set_capacity(ROOMY);
        self.filled = false;
        if self.trouble == Trouble::Full {
            self.trouble = Trouble::None;
        }
    }
}
