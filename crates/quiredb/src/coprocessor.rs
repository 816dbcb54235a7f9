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
//!
//! // A trigger runs with each write, and what it changes is written with it.
//! let dear = Code::trigger("dear", |change| {
//!     let price = change.after.and_then(|car| car.get("price"));
//!     let is_dear = matches!(price, Some(ValueRef::Int(price)) if price >= 10);
//!     Ok(is_dear.then(|| Document::from_json(br#"{"dear":true}"#).expect("it is JSON")))
//! });
//! cars.attach_trigger(&dear, Default::default())?;
//! cars.put(&Document::from_json(br#"{"_id":3,"price":30}"#)?)?;
//! let car = cars.get(&3.into())?.expect("it was just written");
//! assert_eq!(car.document.to_json(), r#"{"_id":3,"price":30,"dear":true}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use quire_coprocessor::{
    ABI, Cause, Change, Code, Emit, Error, ErrorKind, Fold, Kind, Limits, MODULE_BYTES_MAX, Result,
    Row, Run, TriggerOptions,
};
pub use quire_database::{
    CodeRun, CoprocessorInfo, Produced, RunOptions, StoredTrigger, TriggerInfo,
};
