//! A whole database on the simulated machine, run against a plain model.
//!
//! [`History`](history) is data: operations as a generator, or a person, writes them. A [`World`](world::World) carries
//! them out on a database and on a [`Model`](model) at once, injects what they ask for, and checks after each step
//! what a client could check.

pub(crate) mod compare;
pub(crate) mod document;
pub mod history;
pub(crate) mod model;
pub mod world;
