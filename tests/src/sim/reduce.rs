//! Reduces a failing history to a short one that still fails.
//!
//! Operations are removed, many at a time at first; then each is simplified; then the settings are.
//! Each smaller history that still fails is the next start, until nothing helps or the number of
//! tries is used up.
//!
//! Source: Zeller, Hildebrandt 2002, "Simplifying and isolating failure-inducing input".

use super::history::{Action, Condition, History, Op, Write};
use super::wide::WideOp;
use quiredb::Durability;

/// The most histories that are tried.
const TRIES_MAX: usize = 4_000;

/// The shortest history found for which `still_fails` is true, starting with `history`, for which
/// it must be.
pub fn reduce(history: &History, still_fails: impl FnMut(&History) -> bool) -> History {
    let mut search = Search {
        best: history.clone(),
        still_fails,
        tries_left: TRIES_MAX,
    };
    while search.take_ops_away() | search.simplify_ops() | search.simplify_settings() {}
    search.best
}

struct Search<F> {
    best: History,
    still_fails: F,
    tries_left: usize,
}

impl<F: FnMut(&History) -> bool> Search<F> {
    /// Continues from this one if it still fails.
    fn accept(&mut self, candidate: History) -> bool {
        if self.tries_left == 0 || candidate == self.best {
            return false;
        }
        self.tries_left -= 1;
        let fails = (self.still_fails)(&candidate);
        if fails {
            self.best = candidate;
        }
        fails
    }

    /// Whether any could be.
    fn take_ops_away(&mut self) -> bool {
        let before = self.best.ops.len();
        let mut size = before.div_ceil(2);
        while size > 0 {
            // From the end: operations after the failure go first, and later ones depend on earlier
            // ones.
            let mut end = self.best.ops.len();
            while end > 0 {
                let start = end.saturating_sub(size);
                let mut candidate = self.best.clone();
                candidate.ops.drain(start..end);
                self.accept(candidate);
                end = start;
            }
            size /= 2;
        }
        self.best.ops.len() < before
    }

    /// Whether any could be.
    fn simplify_ops(&mut self) -> bool {
        let mut any = false;
        for index in 0..self.best.ops.len() {
            // Simpler forms are tried from there.
            while simpler(&self.best.ops[index]).into_iter().any(|op| {
                let mut candidate = self.best.clone();
                candidate.ops[index] = op;
                self.accept(candidate)
            }) {
                any = true;
            }
        }
        any
    }

    /// Whether any could be.
    fn simplify_settings(&mut self) -> bool {
        let plain = History::default();
        let changes: [fn(&mut History, &History); 10] = [
            |history, plain| history.volumes = plain.volumes,
            |history, plain| history.partitions = plain.partitions,
            |history, plain| history.memory_bytes = plain.memory_bytes,
            |history, plain| history.segment_bytes = plain.segment_bytes,
            |history, plain| history.replay_bytes_max = plain.replay_bytes_max,
            |history, plain| history.zstd_level = plain.zstd_level,
            |history, plain| history.dictionary_bytes = plain.dictionary_bytes,
            |history, plain| history.segment_age_secs = plain.segment_age_secs,
            |history, plain| history.index = plain.index,
            |history, plain| history.seed = plain.seed,
        ];
        let mut any = false;
        for change in changes {
            let mut candidate = self.best.clone();
            change(&mut candidate, &plain);
            any |= self.accept(candidate);
        }
        any
    }
}

/// A split or a merge with fewer writes meanwhile, or simpler ones.
fn fewer_meanwhile(writes: &[Write], with: impl Fn(Vec<Write>) -> Op) -> Vec<Op> {
    let plain = (!writes.is_empty()).then(|| with(Vec::new()));
    let fewer = simpler_batches(Durability::Sync, writes, |_, writes| with(writes));
    plain.into_iter().chain(fewer).collect()
}

/// Simpler forms of an operation, the simplest first.
fn simpler(op: &Op) -> Vec<Op> {
    match op {
        Op::Write {
            name,
            durability,
            writes,
        } => simpler_batches(*durability, writes, |durability, writes| Op::Write {
            name: *name,
            durability,
            writes,
        }),
        Op::Wide(WideOp::Write { durability, writes }) => {
            simpler_batches(*durability, writes, |durability, writes| {
                Op::Wide(WideOp::Write { durability, writes })
            })
        }
        Op::Wide(WideOp::Split(writes)) => {
            fewer_meanwhile(writes, |writes| Op::Wide(WideOp::Split(writes)))
        }
        Op::Wide(WideOp::Merge(writes)) => {
            fewer_meanwhile(writes, |writes| Op::Wide(WideOp::Merge(writes)))
        }
        Op::Wide(_) => Vec::new(),
        Op::Create(name, partitions) => smaller(*partitions, 1)
            .map(|partitions| Op::Create(*name, partitions))
            .collect(),
        Op::Advance(millis) => smaller(*millis, 0).map(Op::Advance).collect(),
        Op::Fill(spare) => smaller(*spare, 0).map(Op::Fill).collect(),
        Op::Crash { seed } => few(*seed).map(|seed| Op::Crash { seed }).collect(),
        Op::CrashIn { steps, seed } => few(*seed)
            .map(|seed| Op::CrashIn {
                steps: *steps,
                seed,
            })
            .chain(smaller(*steps, 0).map(|steps| Op::CrashIn { steps, seed: *seed }))
            .chain([Op::Crash { seed: *seed }])
            .collect(),
        Op::FailIn {
            steps,
            full,
            lasting,
        } => {
            let plain = lasting.then_some(Op::FailIn {
                steps: *steps,
                full: *full,
                lasting: false,
            });
            let sooner = smaller(*steps, 0).map(|steps| Op::FailIn {
                steps,
                full: *full,
                lasting: *lasting,
            });
            plain.into_iter().chain(sooner).collect()
        }
        Op::FailReadIn {
            reads,
            short,
            lasting,
        } => {
            let with = |reads, lasting| Op::FailReadIn {
                reads,
                short: *short,
                lasting,
            };
            let plain = lasting.then(|| with(*reads, false));
            let sooner = smaller(*reads, 0).map(|reads| with(reads, *lasting));
            plain.into_iter().chain(sooner).collect()
        }
        Op::Restore { seed } => few(*seed).map(|seed| Op::Restore { seed }).collect(),
        Op::Rot { seed } => few(*seed).map(|seed| Op::Rot { seed }).collect(),
        Op::VerifyRotten { seed } => few(*seed)
            .map(|seed| Op::VerifyRotten { seed })
            .chain([Op::Verify])
            .collect(),
        Op::Slow(micros) => smaller(*micros, 0).map(Op::Slow).collect(),
        Op::FillVolume(volume, spare) => smaller(*spare, 0)
            .map(|spare| Op::FillVolume(*volume, spare))
            .chain([Op::Fill(*spare)])
            .collect(),
        Op::Sync(_)
        | Op::Flush(_)
        | Op::Index(..)
        | Op::Split(_)
        | Op::Merge(_)
        | Op::Compact(_)
        | Op::Drop(_)
        | Op::Check(_)
        | Op::View(_)
        | Op::LookAtViews
        | Op::Verify
        | Op::Rebuild(_)
        | Op::Backup
        | Op::Repair
        | Op::Follow
        | Op::Vanish(_)
        | Op::RunDue
        | Op::RunAll
        | Op::Reopen(_)
        | Op::FailSyncs
        | Op::Heal => Vec::new(),
    }
}

/// Simpler forms of a batch, which `with` makes an operation.
fn simpler_batches(
    durability: Durability,
    writes: &[Write],
    with: impl Fn(Durability, Vec<Write>) -> Op,
) -> Vec<Op> {
    let mut forms = Vec::new();
    if writes.len() > 1 {
        forms.push(with(durability, writes[writes.len() / 2..].to_vec()));
        forms.push(with(durability, writes[..writes.len() / 2].to_vec()));
        for index in 0..writes.len() {
            let mut fewer = writes.to_vec();
            fewer.remove(index);
            forms.push(with(durability, fewer));
        }
    }
    if durability != Durability::Sync {
        forms.push(with(Durability::Sync, writes.to_vec()));
    }
    for (index, write) in writes.iter().enumerate() {
        for form in simpler_writes(write) {
            let mut writes = writes.to_vec();
            writes[index] = form;
            forms.push(with(durability, writes));
        }
    }
    forms
}

fn simpler_writes(write: &Write) -> Vec<Write> {
    let mut forms = Vec::new();
    if write.condition != Condition::Always {
        forms.push(Write {
            condition: Condition::Always,
            ..*write
        });
    }
    let actions: Vec<_> = match write.action {
        Action::Put { bytes } => smaller(bytes, 0)
            .map(|bytes| Action::Put { bytes })
            .collect(),
        Action::Patch { shape } => [Action::Put { bytes: 0 }]
            .into_iter()
            .chain((shape > 1).then_some(Action::Patch { shape: 1 }))
            .collect(),
        Action::Delete => Vec::new(),
    };
    forms.extend(actions.into_iter().map(|action| Write { action, ..*write }));
    forms.extend((write.key > 1).then_some(Write { key: 1, ..*write }));
    forms
}

/// Smaller numbers, none below `least`.
fn smaller(number: u32, least: u32) -> impl Iterator<Item = u32> {
    let mut forms = vec![least, number / 2, number.saturating_sub(1)];
    forms.retain(|form| *form >= least && *form < number);
    forms.dedup();
    forms.into_iter()
}

/// A few seeds that are shorter to write.
fn few(seed: u64) -> impl Iterator<Item = u64> {
    (0..4).filter(move |other| *other < seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::generate::{Profile, generate};
    use crate::sim::history::Name;

    #[test]
    fn what_does_not_matter_goes() {
        // Fails if a large document is written to alpha and beta is flushed later.
        let mut runs = 0;
        let fails = |history: &History| {
            runs += 1;
            let large = |op: &Op| match op {
                Op::Write {
                    name: Name::Alpha,
                    writes,
                    ..
                } => writes
                    .iter()
                    .any(|write| matches!(write.action, Action::Put { bytes } if bytes >= 1_000)),
                _ => false,
            };
            let written = history.ops.iter().position(large);
            let flushed = history
                .ops
                .iter()
                .rposition(|op| *op == Op::Flush(Name::Beta));
            written.is_some() && written < flushed
        };
        let mut fails = fails;
        let seed = (0..)
            .find(|seed| fails(&generate(*seed, Profile::Faults)))
            .unwrap();
        let found = reduce(&generate(seed, Profile::Faults), &mut fails);
        let ops: Vec<_> = found.ops.iter().map(Op::to_string).collect();
        assert_eq!(ops.len(), 2, "{found}");
        assert!(
            ops[0].starts_with("write alpha sync: put ") && ops[0].ends_with(" bytes 1000"),
            "{found}"
        );
        assert_eq!(ops[1], "flush beta");
        assert_eq!(
            History {
                ops: Vec::new(),
                ..found
            },
            History::default(),
            "settings are plain"
        );
        assert!(runs < 5_000, "{runs}");
    }

    #[test]
    fn tries_are_bounded() {
        let mut tries = 0;
        reduce(&generate(3, Profile::Crashes), |_| {
            tries += 1;
            false
        });
        assert!(tries <= TRIES_MAX);
    }
}
