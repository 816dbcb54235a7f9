//! Documents, values, keys and their encodings. No I/O.
//!
//! - [`Document`]: a JSON object in a compact encoding, read in place: any field in constant time.
//! - [`ValueRef`]: one value inside a document; numbers keep the text they were written with.
//! - [`Key`]: a primary key, whose encoded bytes sort as the keys do.
//! - [`ordered`]: values of any scalar type as bytes that sort as the values do, for composite
//!   keys.
//! - [`Position`] and [`DocId`]: ids that every layer shares.
//!
//! ```
//! use quire_model::{Document, Key, ValueRef};
//!
//! let document = Document::from_json(br#"{"_id": "a1", "price": 1.10, "tags": ["new"]}"#)?;
//! assert_eq!(document.to_json(), r#"{"_id":"a1","price":1.10,"tags":["new"]}"#);
//! assert_eq!(document.get("_id"), Some(ValueRef::String("a1")));
//! assert_eq!(Key::from_value(ValueRef::String("a1"))?, Key::parse("a1")?);
//! # Ok::<(), quire_model::Error>(())
//! ```

mod container;
mod document;
mod encoder;
mod error;
mod float;
mod ids;
mod json_in;
mod json_out;
mod key;
mod layout;
mod limits;
mod measure;
pub mod ordered;
mod patch;
mod raw;
mod scalars;
mod validate;
mod value;

pub use document::Document;
pub use error::{Error, ErrorKind};
pub use float::Float;
pub use ids::{DocId, Position};
pub use key::{KEY_BYTES_MAX, Key};
pub use limits::{DEPTH_MAX, DOCUMENT_BYTES_MAX, ENCODED_BYTES_MAX};
pub use value::{ArrayRef, Fields, Items, ObjectRef, ValueRef};
