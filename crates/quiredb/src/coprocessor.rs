//! Coprocessors: WebAssembly modules and closures that run beside the data.
//!
//! ```
//! use quiredb::coprocessor::{Code, Kind, Produced, RunOptions};
//! use quiredb::{Database, Document, ValueRef};
//! # let dir = tempfile::tempdir()?;
//! # let database = Database::open(dir.path())?;
//!
//! let cars = database.collection_or_create("cars", Default::default)?;
//! for json in [r#"{"_id":1,"price":12}"#, r#"{"_id":2,"price":7}"#] {
//!     cars.put(&Document::from_json(json.as_bytes())?)?;
//! }
//! let cheap = Code::filter("cheap", |row| {
//!     Ok(matches!(row.document.get("price"), Some(ValueRef::Int(price)) if price < 10))
//! });
//! let mut kept = cars.view()?.run_code(&cheap, RunOptions::of(Kind::Filter))?;
//! let Some(Produced::Row(found)) = kept.next().transpose()? else {
//!     panic!("car 2 is cheap");
//! };
//! assert_eq!(found.key.to_string(), "2");
//! assert!(kept.next().is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use quire_coprocessor::{
    ABI, Cause, Code, Emit, Error, ErrorKind, Fold, Kind, Limits, MODULE_BYTES_MAX, Result, Row,
    Run,
};
pub use quire_database::{CodeRun, CoprocessorInfo, Produced, RunOptions};
