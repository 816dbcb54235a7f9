//! Sends dead letters again, with the versions that they had.
//!
//! # Invariants
//! 1. The file of dead letters is replaced only after each of its changes was taken, was there
//!    already, or is among those that were refused again. A kill before that leaves it as it was.
//! 2. A change whose key was written since has a lower version than that, so it changes nothing.

use crate::change::{Change, Cursor};
use crate::change_line;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::ship::{ShipOptions, Target, lock_state, ship};
use crate::topic::{Source, Topic};
use parking_lot::Mutex;
use quire_env::{Env, parent_of};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The largest file of dead letters that is read.
const LETTERS_BYTES_MAX: u64 = 256 << 20;

/// What became of dead letters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Retried {
    /// Documents that were sent: of several letters of a key the newest.
    pub sent: u64,
    /// Those of which the sink had a later version.
    pub had: u64,
    /// Those that it refused again: they are the dead letters now.
    pub refused: u64,
}

#[derive(Deserialize)]
struct Letter<'a> {
    #[serde(borrow)]
    change: &'a RawValue,
}

/// Sends the dead letters of a sink again. No pipe may ship with the same state meanwhile.
///
/// # Errors
/// Of the sink or the files; if a line is no dead letter; to stop. The letters stay then.
pub fn retry(
    env: &Arc<dyn Env>,
    target: &Target,
    state: &Path,
    observe: &(dyn Fn(&Progress) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Retried> {
    let _lock = lock_state(&**env, state)?;
    let name = format!("{}.dead.ndjson", target.name);
    let letters_path = state.join(&name);
    if !env.exists(&letters_path)? {
        return Ok(Retried::default());
    }
    let changes = read(&env.read(&letters_path, LETTERS_BYTES_MAX)?)
        .map_err(|why| Error::Config(format!("{}: {why}", letters_path.display())))?;
    let folder = state.join(format!("{}.retry", target.name));
    // What a run that was killed left.
    if env.exists(&folder)? {
        env.remove_dir_all(&folder)?;
    }
    let source = Letters {
        identity: format!("dead letters of {}", target.name),
        changes: Mutex::new(changes.into()),
    };
    let target = Target {
        dead_letters_max: u64::MAX,
        ..target.clone()
    };
    let options = ShipOptions {
        state: folder.clone(),
        once: true,
        report_every: Duration::from_secs(1),
    };
    let mut ends = ship(env, &source, &[target], &options, observe, stop)?;
    let progress = ends.pop().unwrap_or(Err(Error::Stopped))?;
    let refused = folder.join(&name);
    match env.exists(&refused)? {
        true => env.rename(&refused, &letters_path)?,
        false => env.remove(&letters_path)?,
    }
    env.sync_dir(parent_of(&letters_path))?;
    env.remove_dir_all(&folder)?;
    Ok(Retried {
        sent: progress.changes,
        had: progress.had,
        refused: progress.dead_letters,
    })
}

/// The newest change of each key, in the order of their positions.
fn read(bytes: &[u8]) -> std::result::Result<Vec<Change>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let mut newest: BTreeMap<Arc<str>, Change> = BTreeMap::new();
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let change = serde_json::from_str(line)
            .map_err(|error| error.to_string())
            .and_then(|letter: Letter<'_>| change_line::read(letter.change.get()));
        let change = match change {
            Ok(change) => change,
            // A crash cut it; its change was not passed over.
            Err(_) if !line.ends_with('\n') => continue,
            Err(why) => return Err(format!("line {number} is no dead letter: {why}")),
        };
        let is_newer = |had: &Change| had.position < change.position;
        if newest.get(&change.key).is_none_or(is_newer) {
            newest.insert(Arc::clone(&change.key), change);
        }
    }
    let mut changes: Vec<Change> = newest.into_values().collect();
    changes.sort_by_key(|change| (change.partition, change.position));
    Ok(changes)
}

/// Changes that are read once.
#[derive(Debug)]
struct Letters {
    identity: String,
    changes: Mutex<VecDeque<Change>>,
}

impl Source for Letters {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn grows(&self) -> bool {
        false
    }

    fn has_dense_positions(&self) -> bool {
        false
    }

    fn open(&self, _place: Option<&Value>) -> Result<Box<dyn Topic>> {
        Ok(Box::new(LettersTopic(std::mem::take(
            &mut *self.changes.lock(),
        ))))
    }
}

struct LettersTopic(VecDeque<Change>);

impl Topic for LettersTopic {
    fn read(&mut self, _: &Cursor, bytes_max: usize, _: Duration) -> Result<Vec<Change>> {
        let (mut changes, mut bytes) = (Vec::new(), 0);
        while bytes < bytes_max
            && let Some(change) = self.0.pop_front()
        {
            bytes += change.bytes();
            changes.push(change);
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_letter_of_a_key_counts_and_a_cut_line_does_not() {
        let letter = |position: u64, key: &str| {
            format!(
                "{{\"reason\":\"no\",\"change\":{{\"partition\":1,\"position\":{position},\
                 \"key\":\"{key}\",\"document\":{{\"n\":{position}}}}}}}\n"
            )
        };
        let lines = [
            letter(7, "b"),
            letter(9, "a"),
            letter(3, "a"),
            letter(9, "a"),
        ]
        .concat();
        let found = read(format!("{lines}{{\"reason\":").as_bytes()).unwrap();
        let found: Vec<_> = found.iter().map(|one| (&*one.key, one.position)).collect();
        assert_eq!(found, [("b", 7), ("a", 9)]);
        let why = read(format!("{lines}{{}}\n").as_bytes()).unwrap_err();
        assert!(why.contains("line 5"), "{why}");
    }
}
