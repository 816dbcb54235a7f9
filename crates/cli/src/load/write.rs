//! Writer threads: each writes the documents of its own partitions, in order.

use super::coordinator::Message;
use super::parse::Part;
use quiredb::{Collection, Durability};
use std::sync::mpsc::{Receiver, Sender};

/// A write that was refused.
#[derive(Debug)]
pub(super) struct Failure {
    /// The document's line.
    pub(super) line: u64,
    /// Why.
    pub(super) error: quiredb::Error,
}

/// Writes parts until none come. Those that have queued up during a sync are written together, with
/// one sync; the flow bounds how many there can be.
pub(super) fn run(
    collection: &Collection,
    durability: Option<Durability>,
    parts: &Receiver<Part>,
    coordinator: &Sender<Message>,
) {
    while let Ok(mut first) = parts.recv() {
        let mut writes = std::mem::take(&mut first.writes);
        let mut group = vec![first];
        for mut part in parts.try_iter() {
            writes.append(&mut part.writes);
            group.push(part);
        }
        let mut results = collection
            .batch()
            .writes(writes)
            .durability(durability)
            .write()
            .into_iter();
        for part in group {
            let failures = part
                .lines
                .iter()
                .zip(&mut results)
                .filter_map(|(line, result)| {
                    result.err().map(|error| Failure { line: *line, error })
                })
                .collect();
            if coordinator
                .send(Message::Written {
                    sequence: part.sequence,
                    failures,
                })
                .is_err()
            {
                return;
            }
        }
    }
}
