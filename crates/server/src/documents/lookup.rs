//! Reading many documents at a time.

use quiredb::{Collection, Found, Key};

/// How many documents to read at a time so that about `bytes_wanted` are held: few at first, then
/// computed from the size of the documents before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    size: usize,
    size_max: usize,
    bytes_wanted: usize,
}

impl Group {
    /// `first` documents at first, at most `size_max`.
    pub(crate) fn new(first: usize, size_max: usize, bytes_wanted: usize) -> Group {
        Group {
            size: first,
            size_max,
            bytes_wanted,
        }
    }

    /// The number of documents to read next.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Records how many bytes the last documents had.
    pub(crate) fn was(&mut self, documents: usize, bytes: usize) {
        let document_bytes = (bytes / documents.max(1)).max(1);
        self.size = (self.bytes_wanted / document_bytes)
            .clamp(1, self.size_max)
            .min(self.size * 2);
    }
}

/// The documents under `keys`, in that order. A document that can't be read fails alone.
pub(crate) fn get_each(
    collection: &Collection,
    keys: &[Key],
) -> Vec<quiredb::Result<Option<Found>>> {
    // One document needs a view of its own partition alone.
    if let [key] = keys {
        return vec![collection.get(key)];
    }
    match collection.get_many(keys) {
        Ok(found) => found.into_iter().map(Ok).collect(),
        Err(_) => keys.iter().map(|key| collection.get(key)).collect(),
    }
}
