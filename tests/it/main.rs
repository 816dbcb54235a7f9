//! Whole-system tests: the engine on a simulated machine, the real binary on the real one.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests call the machine directly, and fail by panicking"
)]

use quire_tests::{http, words};

mod access;
mod backup;
mod bad_clients;
mod bad_input;
mod cgroup;
mod concurrency;
mod crate_graph;
mod descriptors;
mod docs;
mod elasticsearch_py;
mod follow;
mod format_page;
mod formats;
mod frozen;
mod go;
mod histories;
mod hostile;
mod idle_clients;
mod installing;
mod java;
mod kill;
mod live_index;
mod locks;
mod memcached;
mod memory;
mod node;
mod one_key;
mod openapi;
mod opensearch_py;
mod parquet;
mod python;
mod query;
mod quire;
mod repair;
mod repair_wide;
mod rest_cases;
mod scrub;
mod seeded;
mod sim_backup;
mod sim_damage;
mod sim_faults;
mod space;
mod strangers;
mod tls;
mod torture;
mod two_holders;
mod verify_online;
mod wide_query;
