//! Documents and queries to test shards with, as one text; and the answers that are right.
//!
//! A [`Case`] is made of a seed, or read from its text, and holds documents and queries.
//! [`naive::answer`] answers a query as the definitions say, reading every document, without
//! terms, plans or columns. A shard is right if it answers each case in the same way:
//!
//! ```
//! use quire_query::testing::{Case, naive};
//! use quire_query::{ModelShard, Options};
//!
//! for case in (0..10).map(Case::from_seed) {
//!     let shard: ModelShard = case.documents.iter().cloned().collect();
//!     for query in &case.queries {
//!         let answer = query.clone().prepare()?.answer(&[&shard], &Options::default())?;
//!         assert_eq!(answer, naive::answer(&[&case.documents], query), "{case}");
//!     }
//! }
//! # Ok::<(), quire_query::Error>(())
//! ```
//!
//! # Text
//! ```text
//! document {"_id": 1, "a": [2, 3]}         one a line
//! query                                    its lines follow, in any order; each may be missing:
//!   where a > 2 AND b IS NULL
//!   order a DESC, b
//!   skip 3
//!   limit 4
//!   count
//!   aggregate AVG(a) WHERE b = 1           any number of them
//! ```
//! Empty lines, and those that begin with `#`, are ignored. The fields that a query selects and
//! its facets are no part of it.

mod case;
mod generate;
mod generate_facets;
mod generate_parts;
pub mod naive;
mod naive_facets;
mod naive_filter;
mod seeded;
mod text;

pub use case::Case;
pub use seeded::PATHS;
