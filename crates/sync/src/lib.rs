//! What threads share: the standard library's atomics, `parking_lot`'s locks, `arc_swap`; or, under
//! a feature that tests alone switch on, the same by a checker of concurrent code.
//!
//! The memtable, the switch from one version of a tree to the next, and the store that publishes
//! what is visible take these types from here, and from nowhere else. Without a feature they are
//! those of the libraries, by another name, and nothing is different.
//!
//! - `loom` runs a scenario with every order of steps that the memory model allows, up to a number
//!   of interruptions: also those in which a thread sees an old value, since nothing made it see
//!   the new one.
//! - `shuttle` runs a scenario again and again, and at each step chooses at random which thread
//!   goes on: for what is too large to be run in every order. What a thread wrote, all see.

#[cfg(any(feature = "loom", feature = "shuttle"))]
mod checked;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod real;

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub use checked::*;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use real::*;
