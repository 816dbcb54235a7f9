//! The machine, as the engine sees it: files, volumes, a clock, randomness, background work and
//! memory.
//!
//! Every crate above this one calls the machine through [`Env`], and never through `std`. So a
//! whole database runs unchanged on the real machine ([`OsEnv`]), or inside a seeded simulation
//! ([`SimEnv`]) that can crash at any call and keep only what was synced.

mod budget;
mod cache;
mod clock;
mod durable;
mod env;
mod error;
mod file;
mod file_map;
mod io;
mod job;
mod managed;
mod medium;
mod os;
mod part;
mod prefetch;
mod sim;
mod stamp;
mod tally;
mod volume;

pub use budget::{Budget, Charge, Claim};
pub use cache::{BlockCache, BlockKey, Cached};
pub use durable::parent_of;
pub use env::{Env, LOCK_NAME};
pub use error::{Error, ErrorKind, Result};
pub use file::{AppendFile, FileLock, ReadFile};
pub use file_map::FileMap;
pub use io::{
    AdmissionFigures, AdmissionLimits, IO_CLASSES, IoClass, IoLimits, IoScope, MergeLimits,
    MergePermit, VolumeIo,
};
pub use job::{Gate, Job, JobClass};
pub use managed::ManagedEnv;
pub use medium::Medium;
pub use os::OsEnv;
pub use prefetch::prefetch;
pub use sim::{Absence, Fault, Latency, ReadFault, SimEnv};
pub use stamp::FileStamp;
pub use tally::Tally;
pub use volume::{FileId, Volume, VolumeId, Volumes, found};
