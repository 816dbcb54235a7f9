//! Torture tests: the real binary on real files of the real machine, under faults for minutes or
//! hours, compared each time with what it had acknowledged. `make torture` runs them.
//!
//! A [`run`](run::run) is rounds of all `kinds` in turn. A round has a seed, which decides what it
//! does (but not when: that depends on the machine), and a directory of its own. Most are a
//! `Siege`: clients write to a server, a fault happens, and what is found afterwards must agree
//! with the `Book`s of the clients.

mod book;
mod cgroup;
mod client;
mod content;
mod disk;
mod kinds;
mod leftovers;
mod loader;
mod process;
mod random;
mod round;
mod run;
mod siege;
mod simulated;
mod strace;
mod tally;
mod trouble;

pub use leftovers::{own_name, take_down};
pub use run::{Plan, Summary, run};
pub use trouble::{Result, Trouble, While};
