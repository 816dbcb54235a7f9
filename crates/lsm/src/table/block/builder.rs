//! Builds a block: in the fixed layout as long as all entries allow it, else in the other.

use super::fixed;
use crate::entry_kind::EntryKind;
use crate::fences::shared_bytes;
use crate::varint;

/// Entries per restart in a data block.
pub(crate) const DATA_RESTART: usize = 16;
/// Entries per restart in an index block: searched more often than it is read through.
pub(crate) const INDEX_RESTART: usize = 4;

/// Builds a block.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    columns: Columns,
    entries: Entries,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// An empty block with a restart every `restart_interval` entries, if it has restarts.
    pub(crate) fn new(restart_interval: usize) -> BlockBuilder {
        BlockBuilder {
            columns: Columns::default(),
            entries: Entries {
                restart_interval,
                bytes: Vec::new(),
                restarts: Vec::new(),
                count: 0,
            },
            last_key: Vec::new(),
        }
    }

    /// True if it has no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.count == 0 && self.entries.count == 0
    }

    /// Its length in bytes if it were finished now.
    pub(crate) fn bytes(&self) -> usize {
        match self.columns.count {
            0 => self.entries.bytes.len() + 4 * self.entries.restarts.len() + 4,
            _ => self.columns.bytes(),
        }
    }

    /// The last key added.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Adds an entry. The caller sees to the order of keys.
    pub(crate) fn add(&mut self, key: &[u8], kind: EntryKind, value: &[u8]) {
        debug_assert!(
            self.is_empty() || self.last_key.as_slice() < key,
            "keys of a block ascend"
        );
        if self.entries.count == 0 && self.columns.fits(key, kind, value) {
            self.columns.add(key, value);
        } else {
            self.leave_columns();
            self.entries.add(&self.last_key, key, kind, value);
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
    }

    /// Moves what is in the columns into the other layout.
    fn leave_columns(&mut self) {
        let mut last: &[u8] = &[];
        for (key, value) in self.columns.iter() {
            self.entries.add(last, key, EntryKind::Put, value);
            last = key;
        }
        self.columns.clear();
    }

    /// Completes the block and hands it to `done`; then the builder is empty again, its last key
    /// kept.
    pub(crate) fn finish<T>(&mut self, done: impl FnOnce(&[u8]) -> T) -> T {
        assert!(
            self.entries.count == 0 || self.columns.count == 0,
            "a block has one layout"
        );
        match self.columns.count {
            0 => self.entries.complete(),
            _ => self.columns.complete(&mut self.entries.bytes),
        }
        let out = done(&self.entries.bytes);
        self.columns.clear();
        self.entries.clear();
        out
    }
}

/// The entries of a block in the fixed layout; of none, there is no such block.
#[derive(Debug, Default)]
struct Columns {
    count: usize,
    key_bytes: usize,
    value_bytes: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl Columns {
    /// Whether an entry may come after those that are here.
    fn fits(&self, key: &[u8], kind: EntryKind, value: &[u8]) -> bool {
        kind == EntryKind::Put
            && match self.count {
                0 => (1..=fixed::KEY_BYTES_MAX).contains(&key.len()),
                _ => key.len() == self.key_bytes && value.len() == self.value_bytes,
            }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        (self.key_bytes, self.value_bytes) = (key.len(), value.len());
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(value);
        self.count += 1;
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.count).map(|index| {
            (
                slice(&self.keys, index, self.key_bytes),
                slice(&self.values, index, self.value_bytes),
            )
        })
    }

    /// How many bytes all keys share. Each keeps at least one of its own.
    fn shared(&self) -> usize {
        let first = slice(&self.keys, 0, self.key_bytes);
        let last = slice(&self.keys, self.count - 1, self.key_bytes);
        shared_bytes(first, last).min(self.key_bytes - 1)
    }

    /// Length of the block.
    fn bytes(&self) -> usize {
        let shared = self.shared();
        shared + self.count * (self.key_bytes - shared) + self.values.len() + fixed::END_BYTES
    }

    /// Puts the block in `out`, which is empty.
    fn complete(&self, out: &mut Vec<u8>) {
        let shared = self.shared();
        out.extend_from_slice(self.keys.get(..shared).unwrap_or_default());
        for (key, _) in self.iter() {
            out.extend_from_slice(key.get(shared..).unwrap_or_default());
        }
        out.extend_from_slice(&self.values);
        out.extend_from_slice(&(self.count as u32).to_le_bytes());
        out.extend_from_slice(&(self.value_bytes as u32).to_le_bytes());
        out.push(shared as u8);
        out.push((self.key_bytes - shared) as u8);
        out.extend_from_slice(&fixed::MARK);
    }

    fn clear(&mut self) {
        self.count = 0;
        self.keys.clear();
        self.values.clear();
    }
}

/// The part of a column that an entry has.
fn slice(column: &[u8], index: usize, bytes: usize) -> &[u8] {
    column
        .get(index * bytes..(index + 1) * bytes)
        .unwrap_or_default()
}

/// The entries of a block in the prefixed layout.
#[derive(Debug)]
struct Entries {
    restart_interval: usize,
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    count: usize,
}

impl Entries {
    fn add(&mut self, last_key: &[u8], key: &[u8], kind: EntryKind, value: &[u8]) {
        let shared = if self.count.is_multiple_of(self.restart_interval) {
            self.restarts.push(self.bytes.len() as u32);
            0
        } else {
            shared_bytes(last_key, key)
        };
        let unshared = key.get(shared..).unwrap_or_default();
        varint::put(&mut self.bytes, shared as u64);
        varint::put(&mut self.bytes, unshared.len() as u64);
        varint::put(&mut self.bytes, (value.len() as u64) << 2 | kind as u64);
        self.bytes.extend_from_slice(unshared);
        self.bytes.extend_from_slice(value);
        self.count += 1;
    }

    fn complete(&mut self) {
        for restart in &self.restarts {
            self.bytes.extend_from_slice(&restart.to_le_bytes());
        }
        self.bytes
            .extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.restarts.clear();
        self.count = 0;
    }
}
