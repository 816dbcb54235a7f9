//! Sink: groups of writes into a collection, acknowledged together.

use crate::group::PartitionGroup;
use crate::parse::{Origin, Part};
use crate::target::Target;
use quiredb::{Collection, Durability, ErrorKind, Write, Written};
use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;

/// Does the writes of `groups`, which were grouped for `collection`, and gives the result of each
/// with its tag, group by group. `durability` overrides the collection's. Blocks until all are
/// acknowledged: one sync for each partition at most.
pub fn write_groups<T>(
    collection: &Collection,
    groups: Vec<PartitionGroup<T>>,
    durability: Option<Durability>,
) -> impl Iterator<Item = (T, quiredb::Result<Written>)> {
    let groups = groups.into_iter().map(PartitionGroup::into_parts);
    let (tags, groups): (Vec<Vec<T>>, Vec<_>) = groups.unzip();
    let results = collection.write_grouped(groups, durability);
    assert!(results.len() == tags.len(), "each group has its results");
    let pairs = tags.into_iter().zip(results);
    pairs.flat_map(|(tags, results)| tags.into_iter().zip(results))
}

/// A write that was refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Its document.
    pub(crate) origin: Origin,
    /// Why.
    pub(crate) error: quiredb::Error,
}

/// The work of a writer thread: writes parts until none come. Parts that queued up during a sync
/// are written together, with one sync; the bytes in flight bound their count. `done` gets each
/// part's batch and its refused writes; false ends the work.
pub(crate) fn write_parts(
    target: &impl Target,
    durability: Option<Durability>,
    parts: &Receiver<Part>,
    mut done: impl FnMut(u64, Vec<Refusal>) -> bool,
) {
    while let Ok(first) = parts.recv() {
        let mut sequences = vec![first.sequence];
        let mut groups = first.groups;
        let mut queued = parts.try_iter().peekable();
        if queued.peek().is_some() {
            let mut by_partition: BTreeMap<u32, PartitionGroup<Origin>> = BTreeMap::new();
            groups
                .into_iter()
                .for_each(|group| merge(&mut by_partition, group));
            for part in queued {
                sequences.push(part.sequence);
                part.groups
                    .into_iter()
                    .for_each(|group| merge(&mut by_partition, group));
            }
            groups = by_partition.into_values().collect();
        }
        let borrowed: Vec<(u32, &[Write])> = groups
            .iter()
            .map(|group| (group.partition(), group.writes()))
            .collect();
        let results = target.write(&borrowed, durability);
        assert!(results.len() == groups.len(), "each group has its results");
        let results = groups.into_iter().zip(results);
        let results =
            results.flat_map(|(group, results)| group.into_tags().into_iter().zip(results));
        let mut refusals: Vec<Refusal> = results
            .filter_map(|(origin, result)| {
                // A document that has a newer external version stays.
                let error = result.err().filter(|e| e.kind() != ErrorKind::Conflict)?;
                Some(Refusal { origin, error })
            })
            .collect();
        for sequence in sequences {
            let (own, others) = refusals
                .into_iter()
                .partition(|refusal| refusal.origin.sequence == sequence);
            refusals = others;
            if !done(sequence, own) {
                return;
            }
        }
    }
}

/// Adds a group behind those of its partition.
fn merge(by_partition: &mut BTreeMap<u32, PartitionGroup<Origin>>, group: PartitionGroup<Origin>) {
    match by_partition.get_mut(&group.partition()) {
        Some(earlier) => earlier.append(group),
        None => {
            by_partition.insert(group.partition(), group);
        }
    }
}
