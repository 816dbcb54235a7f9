//! The memory that views hold after it was flushed, and that writes may wait for.

use quiredb::View;

/// Views that hold no more than this keep nobody waiting.
const FREE_BYTES: u64 = 64 << 10;

/// Whether views hold memtables that are free without them.
pub(crate) fn holds_memtables(views: &[View]) -> bool {
    views.iter().map(View::held_memtable_bytes).sum::<u64>() > FREE_BYTES
}
