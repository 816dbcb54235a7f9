//! Op: what is written to a tree.

/// The longest key, in bytes. Keys have at least one.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The longest value or operand, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// A change to one key, or to a range of them from that key on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op<'a> {
    /// The key has this value.
    Put(&'a [u8]),
    /// The key has no value.
    Delete,
    /// The key's value changes by this operand of the tree's [`Merger`](crate::Merger).
    Merge(&'a [u8]),
    /// The key and those after it have no value, up to this one, which keeps its own; an empty one
    /// is no end. None, if this one is not after the key.
    DeleteRange(&'a [u8]),
    /// The key has a value until a deadline, and none from then on:
    /// [`DEADLINE_BYTES`](crate::DEADLINE_BYTES) of microseconds since 1970 UTC, little-endian,
    /// then the value. An operand over it keeps the deadline, also one that has passed: a writer of
    /// operands first reads the deadline by
    /// [`TreeReader::get_with_deadline`](crate::TreeReader::get_with_deadline), and writes a value
    /// if it has passed.
    PutUntil(&'a [u8]),
}
