//! A topic of Kafka as a source and a sink of `quire pipe`: each record is a change of the document
//! that its key names; one without a value is a deletion.
//!
//! # Invariants of the source
//! 1. The position of a change is the offset of its record and 1: it is the same whenever it is
//!    read, and grows within a partition. So it serves as the document's version.
//! 2. What was compacted away has a later record of its key. What retention removed has none: a
//!    reader that comes too late stops, or goes on where the topic begins, as the options say.
//! 3. All records of a key are in one partition as long as the topic has as many partitions as
//!    before; with others the reader stops.
//!
//! Records that a transaction wrote and took back are read as any others: the client does not tell
//! them apart.

mod brokers;
mod fault;
mod options;
mod partitioner;
mod record;
mod sink;
mod source;
mod topic;

pub use options::{KafkaOptions, KafkaSinkOptions};
pub use sink::KafkaSink;
pub use source::KafkaSource;
