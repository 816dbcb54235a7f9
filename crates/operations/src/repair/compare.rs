//! Comparing what the log gave with what the index knows, at the position of the index.

use super::origins::Origins;
use super::report::LostKey;
use super::target::Target;
use quire_collection::{Effect, PartitionScan, SalvagedIndex, Write};
use quire_database::{Result, engine};
use quire_model::{Key, Position};
use quire_store::Durability;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;

/// Documents that are deleted at once.
const BATCH: usize = 1024;

/// The documents that came of one partition so far, in key order, with the positions that they came
/// from.
struct Salvaged<'a> {
    scans: Vec<Peekable<PartitionScan>>,
    origins: &'a Origins,
    partition: u32,
}

impl Salvaged<'_> {
    fn next(&mut self) -> Result<Option<(Key, Position)>> {
        loop {
            // As a rule there is one scan.
            let key = |scan: &mut Peekable<PartitionScan>| match scan.peek() {
                Some(Ok(found)) => Some((false, Some(found.key.clone()))),
                // An error comes first.
                Some(Err(_)) => Some((false, None)),
                None => None,
            };
            let heads = self.scans.iter_mut().enumerate();
            let smallest = heads
                .filter_map(|(at, scan)| Some((key(scan)?.1, at)))
                .min();
            let Some((_, at)) = smallest else {
                return Ok(None);
            };
            let Some(found) = self.scans.get_mut(at).and_then(Iterator::next) else {
                return Ok(None);
            };
            let found = found?;
            let origin = self.origins.origin(found.partition, found.version);
            if let Some((partition, position)) = origin
                && partition == self.partition
            {
                return Ok(Some((found.key, position)));
            }
        }
    }
}

/// Compares, if any record that the index has seen is lost, and reports each document that
/// differs. Those that the index knows to be deleted are deleted.
pub(super) fn compare(
    index: &SalvagedIndex,
    lost: &[(Position, Position)],
    target: &mut Target<'_>,
    report: &mut dyn FnMut(String, LostKey),
) -> Result<()> {
    if !lost.iter().any(|(first, _)| *first <= index.position()) {
        return Ok(());
    }
    target.write()?;
    let view = target.collection.view()?;
    let mut scans = Vec::new();
    for holder in target.origins.holders(target.partition) {
        let partition = engine::view_partitions(&view)?.get(holder as usize);
        let scan = partition.map(|view| view.scan(Bound::Unbounded, Bound::Unbounded));
        scans.extend(scan.transpose()?.map(Iterator::peekable));
    }
    // Of each new partition, the first version that is a deletion made here.
    let mut made: BTreeMap<u32, Position> = BTreeMap::new();
    {
        let mut deleted = Vec::new();
        let mut salvaged = Salvaged {
            scans,
            origins: target.origins,
            partition: target.partition,
        };
        let mut known = index.entries()?;
        let (mut left, mut right) = (known.next().transpose()?, salvaged.next()?);
        loop {
            let order = match (&left, &right) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((left, _)), Some((right, _))) => left.cmp(right),
            };
            let took = order.is_le().then(|| left.take()).flatten();
            let gave = order.is_ge().then(|| right.take()).flatten();
            match (&took, &gave) {
                (Some((key, lost)), None) => {
                    let outcome = LostKey::Lost { lost: lost.0 };
                    report(key.to_string(), outcome);
                }
                (Some((key, lost)), Some((_, kept))) if kept < lost => {
                    let (lost, kept) = (lost.0, kept.0);
                    let outcome = LostKey::Older { lost, kept };
                    report(key.to_string(), outcome);
                }
                (None, Some((key, found))) => {
                    let outcome = LostKey::Deleted { found: found.0 };
                    report(key.to_string(), outcome);
                    deleted.push(Write::delete(key.clone()));
                    if deleted.len() == BATCH {
                        delete(target, std::mem::take(&mut deleted), &mut made)?;
                    }
                }
                _ => {}
            }
            if took.is_some() {
                left = known.next().transpose()?;
            }
            if gave.is_some() {
                right = salvaged.next()?;
            }
        }
        delete(target, deleted, &mut made)?;
    }
    for (partition, version) in made {
        target.origins.note(partition, version, None);
    }
    Ok(())
}

/// Deletes documents; notes the first version of each partition that comes of it.
fn delete(
    target: &Target<'_>,
    writes: Vec<Write>,
    made: &mut BTreeMap<u32, Position>,
) -> Result<()> {
    let batch = target.collection.batch().writes(writes);
    for result in batch.durability(Durability::None).write() {
        let written = result?;
        if written.effect != Effect::Unchanged {
            made.entry(written.partition).or_insert(written.version);
        }
    }
    Ok(())
}
