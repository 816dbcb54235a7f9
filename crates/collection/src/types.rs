//! What goes into a collection and what comes out of it.

use crate::Result;
use quire_model::{Document, Key, Position};
use quire_search::with_key;

/// What a write does to its document.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Makes this the document, whole.
    Put(Document),
    /// Changes the document by a JSON merge patch (RFC 7396); the document must exist.
    Patch(Document),
    /// Removes the document.
    Delete,
}

/// What must hold for a write to be done; judged in the order of the log, against the newest state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    /// Nothing.
    #[default]
    Always,
    /// No document has this key.
    IfAbsent,
    /// The document's version is this one.
    IfVersion(Position),
    /// The document's external version, or that of its deletion, is less than this one, which is
    /// its external version from then on. Holds where neither a document nor its deletion has one:
    /// positions can't be compared with the versions of another system.
    ///
    /// Later writes without an external version add one to it, so it never decreases.
    External(u64),
    /// As [`External`](Condition::External), but it may also be equal.
    ExternalOrEqual(u64),
}

impl Condition {
    /// The external version that the write gives its document.
    pub fn external(self) -> Option<u64> {
        match self {
            Condition::External(version) | Condition::ExternalOrEqual(version) => Some(version),
            Condition::Always | Condition::IfAbsent | Condition::IfVersion(_) => None,
        }
    }
}

/// When a document expires: from then on it is read and written as if it were deleted, and soon
/// after it is.
///
/// Time is that of the clock of the machine that reads or writes. A time that has passed already
/// becomes the time of the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expiry {
    /// A document that is put never expires, and one that is patched does when it did before.
    #[default]
    Usual,
    /// Never.
    Never,
    /// At this time: microseconds since 1970 UTC.
    At(i64),
}

/// One write: a key, what to do, and under which condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// The document's key.
    pub key: Key,
    /// What to do.
    pub action: Action,
    /// What must hold.
    pub condition: Condition,
    /// When the document expires.
    pub expiry: Expiry,
}

impl Write {
    /// Makes `document` the document under `key`.
    pub fn put(key: Key, document: Document) -> Write {
        Write {
            key,
            action: Action::Put(document),
            condition: Condition::Always,
            expiry: Expiry::Usual,
        }
    }

    /// Changes the document under `key` by a merge patch.
    pub fn patch(key: Key, patch: Document) -> Write {
        Write {
            key,
            action: Action::Patch(patch),
            condition: Condition::Always,
            expiry: Expiry::Usual,
        }
    }

    /// Removes the document under `key`.
    pub fn delete(key: Key) -> Write {
        Write {
            key,
            action: Action::Delete,
            condition: Condition::Always,
            expiry: Expiry::Usual,
        }
    }

    /// The same write, only if no document has the key.
    #[must_use]
    pub fn if_absent(mut self) -> Write {
        self.condition = Condition::IfAbsent;
        self
    }

    /// The same write, which gives the document an external version that must be greater than the
    /// one it has.
    #[must_use]
    pub fn external(mut self, version: u64) -> Write {
        self.condition = Condition::External(version);
        self
    }

    /// The same write, after which the document expires at this time.
    #[must_use]
    pub fn expiring(mut self, expiry: Expiry) -> Write {
        self.expiry = expiry;
        self
    }

    /// The same write, only if the document's version is this one.
    #[must_use]
    pub fn if_version(mut self, version: Position) -> Write {
        self.condition = Condition::IfVersion(version);
        self
    }
}

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// There was no document; now there is.
    Created,
    /// The document was replaced or patched.
    Updated,
    /// The document was removed.
    Deleted,
    /// A patch that changes nothing, or the removal of a document that is not there. Nothing was
    /// written, unless the removal has an external version, which is kept.
    Unchanged,
}

/// The acknowledgement of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// What it did.
    pub effect: Effect,
    /// The document's version now: the position of its record in the partition's log. Where nothing
    /// was written, the version it has (0 when there is no document).
    pub version: Position,
    /// The external version that the document, or its deletion, has now.
    pub external: Option<u64>,
    /// The partition that the key belongs to.
    pub partition: u32,
}

impl Written {
    /// The version that clients are shown: the external one if it has one.
    pub fn shown_version(&self) -> u64 {
        self.external.unwrap_or(self.version.0)
    }
}

/// A document as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Its key.
    pub key: Key,
    /// Its version: the position of its record in the partition's log.
    pub version: Position,
    /// Its external version: the newest that a writer gave it, or one more for each write since.
    pub external: Option<u64>,
    /// When it expires, if it does: microseconds since 1970 UTC.
    pub expires_micros: Option<i64>,
    /// The partition it lives in.
    pub partition: u32,
    /// The document.
    pub document: Document,
}

/// What a read of bounded length gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Within {
    /// There is no document under this key.
    Absent,
    /// The document.
    Found(Found),
    /// The document was not read, because its record did not fit: the length of that in bytes.
    Longer(u64),
}

impl Found {
    /// The version that clients are shown: the external one if it has one.
    pub fn shown_version(&self) -> u64 {
        self.external.unwrap_or(self.version.0)
    }

    /// With this a write keeps when the document expires.
    pub fn expiry(&self) -> Expiry {
        self.expires_micros.map_or(Expiry::Never, Expiry::At)
    }

    /// The document, with its key in the field [`ID`](crate::ID): an integer if the key is one,
    /// else a string.
    ///
    /// # Errors
    /// `TooLarge` if the document would be larger than documents may be.
    pub fn document_with_key(&self) -> Result<Document> {
        Ok(with_key(self.document.clone(), &self.key)?)
    }
}

/// A record of the log, as a follower of the collection sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Its position.
    pub version: Position,
    /// The partition whose log it is in.
    pub partition: u32,
    /// When it was written: microseconds since 1970 UTC, by the writer's clock.
    pub time_micros: i64,
    /// The external version that the document, or its deletion, has since.
    pub external: Option<u64>,
    /// When the document expires, if it does: microseconds since 1970 UTC.
    pub expires_micros: Option<i64>,
    /// The document's key.
    pub key: Key,
    /// The document after the change; none when it was deleted.
    pub document: Option<Document>,
}
