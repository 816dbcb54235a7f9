//! [`SetView`]: a set of docids in the bytes of a file, read in place.
//!
//! # Invariants
//! 1. Each cluster is stored as whichever of list, bits and runs takes fewest bytes.
//! 2. A view checks its table of clusters when it is made; after that, whatever the bytes are, it
//!    does not panic.
//!
//! # Layout (little-endian)
//! ```text
//! | clusters (4) | a table, 8 bytes for each cluster, ascending | their bytes, one after another |
//!   entry  | cluster (2) | docids - 1 (2) | kind and end (4) |
//!   kind and end: the upper two bits are 0 list, 1 bits, 2 runs; the lower 30 are where the
//!                 cluster's bytes end, from the end of the table
//!   list   2 bytes for each docid: its low half
//!   bits   words of 8 bytes, at most 1,024, cut after the last set bit
//!   runs   4 bytes for each run: its first and its last low half
//! ```

use crate::cluster::{CLUSTER_DOCS, Cluster, Lows, Owned, WORDS_MAX};
use crate::side_by_side::{and_count, side_by_side};
use crate::{DocSet, IndexDamage, le};

const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
const END_BITS: u32 = 30;

const LIST: u32 = 0;
const BITS: u32 = 1;
const RUNS: u32 = 2;

/// A set of docids in the bytes of a file. Copying it copies two pointers.
#[derive(Debug, Clone, Copy)]
pub struct SetView<'a> {
    table: &'a [[u8; ENTRY_BYTES]],
    bytes: &'a [u8],
}

impl<'a> SetView<'a> {
    /// The set that `bytes` hold, all of them. Linear in its clusters, not its docids.
    ///
    /// # Errors
    /// [`IndexDamage`] if its table makes no sense.
    pub fn new(bytes: &'a [u8]) -> Result<SetView<'a>, IndexDamage> {
        let damaged = |what| IndexDamage { what, offset: 0 };
        let count = le::u32_at(bytes, 0).ok_or(damaged("length of a doc set"))? as usize;
        let (table, rest) = bytes
            .get(HEADER_BYTES..)
            .and_then(|rest| rest.split_at_checked(count.checked_mul(ENTRY_BYTES)?))
            .ok_or(damaged("table of a doc set"))?;
        let view = SetView {
            table: table.as_chunks().0,
            bytes: rest,
        };
        let (mut start, mut last) = (0, None);
        for entry in view.table {
            let (key, end) = (key(*entry), end(*entry));
            let bytes = rest.get(start..end).ok_or(damaged("end of a cluster"))?;
            let (unit, bytes_max) = match kind(*entry) {
                LIST => (2, 2 * CLUSTER_DOCS as usize),
                BITS => (8, 8 * WORDS_MAX),
                RUNS => (4, 2 * CLUSTER_DOCS as usize),
                _ => return Err(damaged("kind of a cluster")),
            };
            if !bytes.len().is_multiple_of(unit) || bytes.len() > bytes_max || last >= Some(key) {
                return Err(damaged("cluster"));
            }
            (start, last) = (end, Some(key));
        }
        if start != rest.len() {
            return Err(damaged("bytes behind a doc set"));
        }
        Ok(view)
    }

    pub(crate) fn clusters(self) -> impl Iterator<Item = (u16, Cluster<'a>)> {
        let mut start = 0;
        self.table.iter().map(move |entry| {
            let end = end(*entry);
            let bytes = self.bytes.get(start..end).unwrap_or_default();
            start = end;
            let cluster = match kind(*entry) {
                LIST => Cluster::List(bytes.as_chunks().0),
                BITS => Cluster::Bits(bytes.as_chunks().0),
                _ => Cluster::Runs(bytes.as_chunks().0),
            };
            (key(*entry), cluster)
        })
    }

    /// How many docids.
    #[must_use]
    pub fn len(self) -> u64 {
        let counts = self.table.iter().map(|entry| u64::from(count(*entry)));
        counts.sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.table.is_empty()
    }

    /// Whether it has this docid.
    #[must_use]
    pub fn contains(self, docid: u32) -> bool {
        let mut clusters = self.clusters();
        let cluster = clusters.find(|(key, _)| u32::from(*key) == docid >> 16);
        cluster.is_some_and(|(_, cluster)| cluster.contains(docid as u16))
    }

    /// How many docids both have, in place.
    #[must_use]
    pub fn intersection_len(self, other: SetView<'_>) -> u64 {
        and_count(self.clusters(), other.clusters())
    }

    /// The docids that both have.
    #[must_use]
    pub fn and(self, other: SetView<'_>) -> DocSet {
        let both = side_by_side(self.clusters(), other.clusters());
        DocSet::from_clusters(both.map(|(key, a, b)| (key, a.zip(b).and_then(|(a, b)| a.and(b)))))
    }

    /// Sets the bits of its docids in `bits`; docids past the end are left out. Bit `i` of word `w`
    /// stands for docid `64 * w + i`.
    pub fn add_to_bits(self, bits: &mut [u64]) {
        for (key, cluster) in self.clusters() {
            let bits = bits.get_mut(usize::from(key) * WORDS_MAX..);
            cluster.add_to_bits(bits.unwrap_or_default());
        }
    }

    /// Its docids as bits, 64 neighbours at a time, ascending: the first docid, a multiple of 64,
    /// and the bits. Whatever the bytes are, words ascend.
    pub fn each_word(self, mut each: impl FnMut(u32, u64)) {
        for (key, cluster) in self.clusters() {
            let start = u32::from(key) << 16;
            cluster.each_word(|word, bits| each(start + 64 * word, bits));
        }
    }

    /// A copy in memory.
    #[must_use]
    pub fn to_doc_set(self) -> DocSet {
        let counts = self.table.iter().map(|entry| count(*entry));
        let clusters = self.clusters().zip(counts);
        DocSet::from_clusters(
            clusters.map(|((key, cluster), count)| (key, cluster.to_owned_of(count))),
        )
    }

    /// How many clusters are stored as a list, as bits and as runs.
    #[must_use]
    pub fn kinds(self) -> [usize; 3] {
        [LIST, BITS, RUNS].map(|wanted| {
            let same = self.table.iter().filter(|entry| kind(**entry) == wanted);
            same.count()
        })
    }
}

/// Sets in memory with sets in a file.
impl DocSet {
    /// How many docids it has in common with a set in a file.
    #[must_use]
    pub fn intersection_len_view(&self, other: SetView<'_>) -> u64 {
        and_count(self.clusters(), other.clusters())
    }

    /// Keeps what a set in a file has too.
    pub fn and_view(&mut self, other: SetView<'_>) {
        self.and_clusters(other.clusters());
    }

    /// Adds what a set in a file has.
    pub fn or_view(&mut self, other: SetView<'_>) {
        self.or_clusters(other.clusters());
    }

    /// Takes away what a set in a file has.
    pub fn and_not_view(&mut self, other: SetView<'_>) {
        self.and_not_clusters(other.clusters());
    }
}

fn key(entry: [u8; ENTRY_BYTES]) -> u16 {
    u16::from_le_bytes([entry[0], entry[1]])
}

fn count(entry: [u8; ENTRY_BYTES]) -> u32 {
    u32::from(u16::from_le_bytes([entry[2], entry[3]])) + 1
}

fn kind(entry: [u8; ENTRY_BYTES]) -> u32 {
    kind_and_end(entry) >> END_BITS
}

fn end(entry: [u8; ENTRY_BYTES]) -> usize {
    (kind_and_end(entry) & !(u32::MAX << END_BITS)) as usize
}

fn kind_and_end(entry: [u8; ENTRY_BYTES]) -> u32 {
    u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]])
}

/// Appends the bytes that [`SetView`] reads.
pub fn encode_set(set: &DocSet, out: &mut Vec<u8>) {
    let clusters = set.owned_clusters();
    assert!(
        clusters.is_sorted_by(|(a, _), (b, _)| a < b),
        "clusters ascend"
    );
    out.extend_from_slice(&(clusters.len() as u32).to_le_bytes());
    let mut bytes = Vec::new();
    for (key, cluster) in clusters {
        assert!(cluster.count() > 0, "no cluster is empty");
        let kind = encode_cluster(cluster, &mut bytes);
        out.extend_from_slice(&key.to_le_bytes());
        out.extend_from_slice(&((cluster.count() - 1) as u16).to_le_bytes());
        // 65,536 clusters of at most 8 KiB: 29 bits.
        assert!(
            bytes.len() < 1 << END_BITS,
            "the end of a cluster fits its bits"
        );
        out.extend_from_slice(&(kind << END_BITS | bytes.len() as u32).to_le_bytes());
    }
    out.extend_from_slice(&bytes);
}

/// Appends a cluster in the form that takes fewest bytes, and returns which.
pub(crate) fn encode_cluster(cluster: &Owned, out: &mut Vec<u8>) -> u32 {
    match cluster {
        Owned::List(lows) => encode_list(lows, out),
        Owned::Bits { words, count } => encode_bits(words, *count as usize, out),
    }
}

/// Appends the docids of a list in the form that takes fewest bytes.
fn encode_list(lows: &[[u8; 2]], out: &mut Vec<u8>) -> u32 {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for low in lows.iter().map(|low| u16::from_le_bytes(*low)) {
        match runs.last_mut() {
            Some((_, last)) if u32::from(low) == u32::from(*last) + 1 => *last = low,
            _ => runs.push((low, low)),
        }
    }
    let words = runs
        .last()
        .map_or(0, |(_, last)| usize::from(*last) / 64 + 1);
    match form(lows.len(), words, runs.len()) {
        RUNS => {
            let ends = runs.iter().flat_map(|(first, last)| [*first, *last]);
            out.extend(ends.flat_map(u16::to_le_bytes));
            RUNS
        }
        LIST => {
            out.extend_from_slice(lows.as_flattened());
            LIST
        }
        _ => {
            let mut bits = Vec::with_capacity(words);
            Cluster::List(lows).add_to(&mut bits);
            out.extend_from_slice(bits.as_flattened());
            BITS
        }
    }
}

/// As [`encode_list`], of `count` docids as bits, of which the last word is not zero. Runs are
/// counted word by word.
fn encode_bits(words: &[[u8; 8]], count: usize, out: &mut Vec<u8>) -> u32 {
    let bounds = bounds(words).map(|word| word.count_ones() as usize);
    let bounds: usize = bounds.sum();
    match form(count, words.len(), bounds.div_ceil(2)) {
        RUNS => {
            append_runs(words, out);
            RUNS
        }
        LIST => {
            out.extend(Lows::of_words(words).flat_map(u16::to_le_bytes));
            LIST
        }
        _ => {
            out.extend_from_slice(words.as_flattened());
            BITS
        }
    }
}

/// Of each word, the bits that differ from the one before: a run begins there, or has ended. A run
/// that ends with the last bit has no such bit for its end.
fn bounds(words: &[[u8; 8]]) -> impl Iterator<Item = u64> {
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words.scan(0, |before, word| {
        let bounds = word ^ (word << 1 | *before);
        *before = word >> 63;
        Some(bounds)
    })
}

/// Appends the first and the last docid of each run.
fn append_runs(words: &[[u8; 8]], out: &mut Vec<u8>) {
    let mut is_in_run = false;
    for (at, mut bounds) in (0u32..).zip(bounds(words)) {
        while bounds != 0 {
            let low = 64 * at + bounds.trailing_zeros();
            let low = if is_in_run { low - 1 } else { low };
            out.extend_from_slice(&(low as u16).to_le_bytes());
            is_in_run = !is_in_run;
            bounds &= bounds - 1;
        }
    }
    if is_in_run {
        let last = 64 * words.len() as u32 - 1;
        out.extend_from_slice(&(last as u16).to_le_bytes());
    }
}

/// The form that takes fewest bytes, of `count` docids that are `words` words of bits or `runs`
/// runs.
fn form(count: usize, words: usize, runs: usize) -> u32 {
    let (list_bytes, bits_bytes, runs_bytes) = (2 * count, 8 * words, 4 * runs);
    if runs_bytes < list_bytes.min(bits_bytes) {
        RUNS
    } else if list_bytes < bits_bytes {
        LIST
    } else {
        BITS
    }
}
