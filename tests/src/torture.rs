//! The real machine: the real binary on real files, tormented for minutes or hours, and each time compared with what it
//! had acknowledged. `make torture` runs it.
//!
//! A [`run`](run::run) is rounds of all [`kinds`] in turn. A round has a seed, which decides what it does (not when: that is the machine's), and
//! a directory of its own. Most are a [`Siege`](siege::Siege): clients write to a server, something happens to it, and what is found
//! afterwards must agree with the clients' [`Book`](book::Book)s.

pub mod book;
pub mod cgroup;
pub mod client;
pub mod content;
pub mod disk;
pub mod kinds;
pub mod leftovers;
pub mod loader;
pub mod process;
pub mod random;
pub mod round;
pub mod run;
pub mod siege;
pub mod strace;
pub mod tally;
pub mod trouble;
