//! A whole database on the simulated machine, run against a plain model.
//!
//! A [`History`] is data: the operations on a database, with plain collections and a wide one, and
//! the faults of the machine. [`generate`]
//! makes one from a seed; a person writes one as [`text`]. [`run`] runs it on a database and on a
//! model at once, injects its faults, and checks after each operation everything that a client
//! could check. A history that fails is made shorter by [`reduce`], and kept under
//! `tests/histories/` by [`check_seeds`]. [`exhaustive`] puts a crash or a fault at every single
//! I/O step of one. [`counters`] is a second, smaller world, for what documents do not test.
//!
//! The simulated engine runs on the calling thread, and so do seeded bugs: one history does not
//! affect another.

mod compare;
pub mod counters;
mod document;
pub mod exhaustive;
mod generate;
mod history;
mod model;
mod queries;
mod reduce;
pub(crate) mod rng;
mod run;
mod seeds;
pub mod text;
mod wide;
mod world;

pub use document::KEYS;
pub use generate::{Profile, generate};
pub use history::{Action, Condition, End, History, Name, Op, VOLUMES_MAX, Write};
pub use queries::with_key;
pub use reduce::reduce;
pub use run::{Failure, RunStats, quietly, run, trace};
pub use seeds::{check_seeds, kept_histories, seeds_wanted};
pub use text::ParseError;
pub use wide::WideOp;
