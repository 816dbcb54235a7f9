//! Parquet files as rows of JSON text, and changes of documents as Parquet files.
//!
//! # Invariants
//! 1. Rows come in the order of the file, each whole or with the reason why it can't be JSON.
//! 2. A file that is cut, damaged or of an unknown kind is an error, never fewer rows.
//! 3. In memory are the rows of one step (`rows.rs`) and a page of each column.
//!
//! # Values
//! Numbers of up to 17 digits and booleans are JSON's; longer decimals are text. Dates, times and
//! timestamps are text of ISO 8601, binary values are text in base64. Lists are arrays; structs
//! and maps are objects. A value that is not there is null.

mod changes;
mod column;
mod error;
mod number;
mod positioned;
mod rows;
mod schema;
mod time;
mod value;

pub use changes::{ChangeRow, ChangesWriter};
pub use error::Error;
pub use positioned::Positioned;
pub use rows::{Cast, Rows};

/// How a Parquet file begins, and ends.
pub const MAGIC: &[u8; 4] = b"PAR1";
