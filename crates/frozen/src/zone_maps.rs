//! [`ZoneMaps`]: the range of a field's values in each of many files, and so which files may have a
//! value.
//!
//! If documents were partitioned by a field, or the field grew as the files did, its ranges are
//! narrow and hardly overlap. The few files that may have a value are then found in a time that is
//! logarithmic in the number of files. If every file has all values, that is found as fast.
//!
//! # Invariants
//! 1. Zones ascend by their least values, and by place where these are equal.
//! 2. `last_ending` of a zone is the index of the one, among it and those before it, whose greatest
//!    value is largest.
//! 3. A term's prefix, its first eight bytes as a number, is not above that of a greater term.
//!    Prefixes are in one array, the terms wherever their files are: most searches read no term but
//!    those that they find.

use crate::bounds::may_match;
use crate::prefix::prefix;
use crate::value_directory::ValueDirectory;
use crate::{FrozenFile, Result};
use bytes::Bytes;
use quire_index::DocSet;
use quire_model::ordered::Direction;
use quire_query::{Path, Places, Test};
use std::cmp::Reverse;
use std::ops::Bound;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// Zones that are tested before all are.
const SAMPLES: usize = 16;

/// Where zones hardly overlap, the first that contains a term is among this number of zones that
/// begin before it.
const NEAR: usize = 4;

/// The range of a field in one file. The bounds may be wider than its values.
#[derive(Debug)]
struct Zone {
    least: Bytes,
    greatest: Bytes,
    place: u32,
    /// The index of the zone that ends last, up to this one.
    last_ending: usize,
}

/// What is known of the files that may have a value.
pub(crate) enum FilesWith {
    /// These, or nearly all.
    Known(Option<Places>),
    /// The same, and a directory would know better: the caller is to make it.
    NeedsDirectory(Option<Places>),
}

/// The ranges of a field in all files.
#[derive(Debug)]
pub(crate) struct ZoneMaps {
    zones: Vec<Zone>,
    /// For each zone the prefix of its least value, and of the greatest value up to it: both
    /// ascend.
    least_prefixes: Vec<u64>,
    greatest_prefixes: Vec<u64>,
    files: u32,
    /// For each file the number of the field in it, and more than any file has where it has none.
    numbers: Box<[u32]>,
    /// The greatest least value of all zones, and the least greatest one: every zone contains what
    /// is between them.
    common: (Bytes, Bytes),
    /// Their prefixes.
    common_prefixes: (u64, u64),
    /// Files that have the field and can't filter by it, ascending: they are candidates, so that a
    /// query on them reports the error.
    unfiltered: Vec<u32>,
    ascending: OnceLock<Arc<[u32]>>,
    descending: OnceLock<Arc<[u32]>>,
    /// Which files have a value; none if that would not help, or takes too many bytes.
    directory: OnceLock<Option<ValueDirectory>>,
    /// How often the directory was needed before it was there.
    needed: AtomicU32,
}

impl ZoneMaps {
    /// Reads the tables of files.
    pub(crate) fn gather<'a>(
        files: impl Iterator<Item = &'a FrozenFile>,
        path: &Path,
    ) -> Result<ZoneMaps> {
        let (mut zones, mut unfiltered, mut count) = (Vec::new(), Vec::new(), 0);
        let mut numbers = Vec::new();
        for (place, file) in (0..).zip(files) {
            count = place + 1;
            let Some(field) = file.field_at(path)? else {
                numbers.push(u32::MAX);
                continue;
            };
            numbers.push(u32::try_from(field.number).unwrap_or(u32::MAX));
            if !field.entry.filterable {
                unfiltered.push(place);
            }
            zones.push(Zone {
                least: field.entry.least.clone(),
                greatest: field.entry.greatest.clone(),
                place,
                last_ending: 0,
            });
        }
        zones.sort_by(|one, other| one.least.cmp(&other.least));
        let (mut last, mut greatest): (_, &[u8]) = (0, &[]);
        let mut last_endings = Vec::with_capacity(zones.len());
        for (at, zone) in zones.iter().enumerate() {
            if *zone.greatest > *greatest {
                (last, greatest) = (at, &zone.greatest);
            }
            last_endings.push(last);
        }
        for (zone, last) in zones.iter_mut().zip(last_endings) {
            zone.last_ending = last;
        }
        let greatest_prefix = |zone: &Zone| {
            let last = zones.get(zone.last_ending);
            last.map_or(0, |last| prefix(&last.greatest))
        };
        let least_prefixes: Vec<_> = zones.iter().map(|zone| prefix(&zone.least)).collect();
        let greatest_prefixes: Vec<_> = zones.iter().map(greatest_prefix).collect();
        assert!(
            least_prefixes.is_sorted(),
            "prefixes of least values ascend"
        );
        assert!(
            greatest_prefixes.is_sorted(),
            "prefixes of greatest values ascend"
        );
        let greatest_least = zones.last().map(|zone| zone.least.clone());
        let least_greatest = zones.iter().map(|zone| &zone.greatest).min().cloned();
        let common = greatest_least.zip(least_greatest).unwrap_or_default();
        Ok(ZoneMaps {
            common_prefixes: (prefix(&common.0), prefix(&common.1)),
            common,
            least_prefixes,
            greatest_prefixes,
            zones,
            files: count,
            numbers: numbers.into(),
            unfiltered,
            ascending: OnceLock::new(),
            descending: OnceLock::new(),
            directory: OnceLock::new(),
            needed: AtomicU32::new(0),
        })
    }

    /// The number of the field in a file; none if no document there has it.
    #[inline]
    pub(crate) fn number_in(&self, place: u32) -> Option<usize> {
        let number = self.numbers.get(place as usize)?;
        (*number != u32::MAX).then_some(*number as usize)
    }

    /// The places of files that may have a value which a test accepts, as far as is known now; none
    /// if that does not narrow them down.
    #[inline]
    pub(crate) fn known_files_with(&self, test: &Test) -> Option<Places> {
        match (self.directory.get(), test) {
            (Some(Some(directory)), Test::Eq(_) | Test::In(_)) => directory.candidates(test),
            _ => self.candidates(test),
        }
    }

    /// The files that may have a value which a test accepts, by the directory if there is one.
    pub(crate) fn files_with(&self, test: &Test) -> FilesWith {
        let is_of_values = matches!(test, Test::Eq(_) | Test::In(_));
        match self.directory.get() {
            Some(Some(directory)) if is_of_values => FilesWith::Known(directory.candidates(test)),
            Some(_) => FilesWith::Known(self.candidates(test)),
            None => {
                let places = self.candidates(test);
                let is_few = places.as_ref().is_some_and(|places| places.len() <= NEAR);
                let is_needed = is_of_values && !is_few;
                match is_needed && self.needed.fetch_add(1, Ordering::Relaxed) == 1 {
                    true => FilesWith::NeedsDirectory(places),
                    false => FilesWith::Known(places),
                }
            }
        }
    }

    /// Puts the directory in place, once; none if there is to be none.
    pub(crate) fn set_directory(&self, directory: Option<ValueDirectory>) {
        // Only the caller that was told to make it gets here.
        let _ = self.directory.set(directory);
    }

    /// Whether there is a directory.
    pub(crate) fn has_directory(&self) -> bool {
        matches!(self.directory.get(), Some(Some(_)))
    }

    /// Whether no file has the field.
    pub(crate) fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// The places of files that may have a value which a test accepts, and of those that can't
    /// filter. None if these are more than half of all, or seem to be.
    pub(crate) fn candidates(&self, test: &Test) -> Option<Places> {
        let most = self.files as usize / 2;
        if self.zones.len() > most && self.is_surely_common(test) {
            return None;
        }
        let (least, greatest) = &self.common;
        if self.zones.len() > most && least <= greatest && may_match(test, least, greatest) {
            return None;
        }
        let (lower, upper) = test.bounds();
        let end = match upper {
            Bound::Included(upper) => {
                self.count_below(&self.least_prefixes, upper, |zone| *zone.least <= *upper)
            }
            Bound::Excluded(upper) => {
                self.count_below(&self.least_prefixes, upper, |zone| *zone.least < *upper)
            }
            Bound::Unbounded => self.zones.len(),
        };
        let start = match lower {
            Bound::Included(lower) | Bound::Excluded(lower) => {
                let prefixes = self.greatest_prefixes.get(..end).unwrap_or_default();
                self.count_below(prefixes, lower, |zone| {
                    let last = self.zones.get(zone.last_ending);
                    last.is_some_and(|last| *last.greatest < *lower)
                })
            }
            Bound::Unbounded => 0,
        };
        let within = self.zones.get(start..end).unwrap_or_default();
        let may_match = |zone: &&Zone| may_match(test, &zone.least, &zone.greatest);
        // If a few zones all match, the field probably has all values in every file.
        let mut some = within.iter().step_by(1 + within.len() / SAMPLES);
        if within.len() > most && some.all(|zone| may_match(&zone)) {
            return None;
        }
        let places = within.iter().filter(may_match).map(|zone| zone.place);
        let mut places: Places = places.take(most + 1).collect();
        places.extend_from_slice(&self.unfiltered);
        if places.len() > most {
            return None;
        }
        places.sort_unstable();
        places.dedup();
        Some(places)
    }

    /// Whether a test accepts a value or a range that has values of every zone, as far as the first
    /// bytes say.
    #[inline]
    fn is_surely_common(&self, test: &Test) -> bool {
        let (least, greatest) = self.common_prefixes;
        let (
            Bound::Included(lower) | Bound::Excluded(lower),
            Bound::Included(upper) | Bound::Excluded(upper),
        ) = test.bounds()
        else {
            return false;
        };
        !matches!(test, Test::In(_))
            && least < greatest
            && prefix(lower) < greatest
            && prefix(upper) > least
    }

    /// How many of the zones that have these prefixes are below a term: by the prefixes, and by
    /// `below` where these are equal. Fastest for one of the last.
    fn count_below(&self, prefixes: &[u64], term: &[u8], below: impl Fn(&Zone) -> bool) -> usize {
        let wanted = prefix(term);
        let last = prefixes.len().saturating_sub(NEAR);
        let is_near = prefixes.get(last).is_some_and(|prefix| *prefix < wanted);
        let (from, within) = match is_near {
            true => (last, prefixes.get(last..)),
            false => (0, prefixes.get(..last)),
        };
        let within = within.unwrap_or_default();
        let start = from + within.partition_point(|prefix| *prefix < wanted);
        let rest = prefixes.get(start..).unwrap_or_default();
        let same = match rest.get(NEAR) {
            Some(prefix) if *prefix == wanted => rest.partition_point(|prefix| *prefix == wanted),
            _ => rest.iter().take_while(|prefix| **prefix == wanted).count(),
        };
        let same = self.zones.get(start..start + same).unwrap_or_default();
        start + same.partition_point(below)
    }

    /// The places of all files, those with the best values first, those without the field last.
    pub(crate) fn best_first(&self, direction: Direction) -> Arc<[u32]> {
        let best_first = match direction {
            Direction::Ascending => &self.ascending,
            Direction::Descending => &self.descending,
        };
        Arc::clone(best_first.get_or_init(|| {
            let mut zones: Vec<&Zone> = self.zones.iter().collect();
            if direction == Direction::Descending {
                zones.sort_by_key(|zone| Reverse(&zone.greatest));
            }
            let with: DocSet = {
                let mut places: Vec<_> = zones.iter().map(|zone| zone.place).collect();
                places.sort_unstable();
                places.into_iter().collect()
            };
            let without = with.complement(self.files);
            let with = zones.iter().map(|zone| zone.place);
            let places: Arc<[u32]> = with.chain(without.iter()).collect();
            assert!(
                places.len() == self.files as usize,
                "each file has one place"
            );
            places
        }))
    }
}
