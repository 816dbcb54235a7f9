//! Documents, values, keys and their encodings. No I/O.

mod ids;

pub use ids::{DocId, Position};
