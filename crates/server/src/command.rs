//! What the `quire` command calls when it works on a server as on a directory: reads, queries and
//! writes of one collection, with everything the command prints of them.
//!
//! - `GET /{collection}/_quire` describes the collection.
//! - `GET /{collection}/_quire/stats` has its statistics, `…/fields` the fields of its documents.
//! - `POST /{collection}/_quire/get` has documents by key, `GET /{collection}/_quire/scan` those of
//!   a range of keys, `POST /{collection}/_quire/query` those that match, counts and aggregates.
//! - `POST /{collection}/_quire/coprocessor` has what a coprocessor makes of the documents.
//! - `POST /{collection}/_quire/write` puts, patches and deletes.
//! - `POST /{collection}/_quire/sync` makes all that was written durable.
//!
//! Reads answer with lines of JSON, made as the client takes them: documents with key and version,
//! warnings, and a last line with `end`. An answer without it was cut.

mod answer_text;
pub(crate) mod coprocessor;
pub(crate) mod describe;
mod end;
pub(crate) mod query;
mod query_text;
pub(crate) mod read;
mod row;
mod stream;
pub(crate) mod trigger;
pub(crate) mod write;
mod write_line;

pub(crate) use answer_text::explain_json;
pub use answer_text::{AggregateText, AnswerText, ExplainText};
pub use end::End;
pub use query_text::{QueryText, QueryTextError};
pub use row::{Line, Row, selected};
pub use write_line::{WriteAnswer, WriteLine};
