//! Capturing several stores as they all are at one moment, while they go on being written.
//!
//! # Order
//! 1. Of each store: keep the log's segments from being dropped, copy the manifest, hold its table
//!    files.
//! 2. Hold the writers of all stores; end each log's last block; release the writers. Nothing here
//!    waits for a disk.
//! 3. Of each store: make the log durable up to that position, hold the files it is in.
//!
//! What is copied then is immutable: tables, and the log's bytes up to the end of a block. The
//! manifest is at most as new as the position, so opening the copies replays the log from the one
//! to the other, as after a crash.

use crate::{AnyStore, Capture, Result};
use std::sync::Arc;

/// Captures stores as they all are at one moment. `at_moment` is run in it, while no store can be
/// written: it must not wait. Writes are held back for as long as that takes, and for no disk.
///
/// # Errors
/// `Closed`; those of a sync of a log.
pub fn capture<R>(
    stores: &[Arc<dyn AnyStore>],
    at_moment: impl FnOnce() -> R,
) -> Result<(Vec<Capture>, R)> {
    let begun = stores.iter().map(|store| store.begin_capture());
    let begun: Vec<_> = begun.collect::<Result<_>>()?;
    let (positions, moment) = {
        let writers: Vec<_> = stores.iter().map(|store| store.hold_writer()).collect();
        let moment = at_moment();
        let positions: Vec<_> = stores.iter().map(|store| store.cut_log()).collect();
        drop(writers);
        (positions, moment)
    };
    let begun = stores.iter().zip(begun).zip(positions);
    let captures = begun.map(|((store, begun), position)| store.end_capture(begun, position));
    Ok((captures.collect::<Result<_>>()?, moment))
}
