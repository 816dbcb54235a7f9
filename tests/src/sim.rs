//! A whole database on the simulated machine, run against a plain model.
//!
//! A [`History`] is data: what is done to a database, and what the machine does to it. [`generate`]
//! makes one from a seed, a person writes one as [`text`]. [`run`] carries it out on a database and
//! on a model at once, brings about the faults that it asks for, and checks after each operation
//! what a client could check. A history that fails is made short by [`reduce`], and kept under
//! `tests/histories/` by [`check_seeds`]. [`exhaustive`] puts a crash or a fault at every single
//! I/O step of one. [`counters`] is a smaller world beside it, for what documents do not do.
//!
//! The engine under simulation runs on the thread that calls: so do seeded bugs, and one history
//! does not touch another.

mod compare;
pub mod counters;
mod document;
pub mod exhaustive;
mod generate;
mod history;
mod model;
mod reduce;
pub(crate) mod rng;
mod run;
mod seeds;
pub mod text;
mod world;

pub use document::KEYS;
pub use generate::{Profile, generate};
pub use history::{Action, Condition, End, History, Name, Op, VOLUMES_MAX, Write};
pub use reduce::reduce;
pub use run::{Failure, RunStats, quietly, run, trace};
pub use seeds::{check_seeds, kept_histories, seeds_wanted};
pub use text::ParseError;
