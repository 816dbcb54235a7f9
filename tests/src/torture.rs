//! The real machine: the real binary on real files, tormented for minutes or hours, and each time
//! compared with what it had acknowledged. `make torture` runs it.
//!
//! A [`run`](run::run) is rounds of all `kinds` in turn. A round has a seed, which decides what it
//! does (not when: that is the machine's), and a directory of its own. Most are a `Siege`: clients
//! write to a server, something happens to it, and what is found afterwards must agree with the
//! clients' `Book`s.

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
