//! Following over HTTP: a leader's routes, and a follower that calls them.
//!
//! | route | what it answers |
//! | --- | --- |
//! | `POST /_follow` | messages without end, of what comes after what the follower says it has |
//! | `POST /_follow/copy/{id}` | what there is in a copy of all files as of now, held under an id of the follower's |
//! | `GET /_follow/copy/{id}/{name}` | the file of this number |
//! | `DELETE /_follow/copy/{id}` | nothing: the files may go |
//!
//! The messages are those of [`quiredb::operations::Frame`]. A follower asks in HTTP/1.0, so an answer ends
//! where its connection does.

mod client;
mod follower;
mod leader;
mod state;

pub use client::{Response, request};
pub use follower::{FollowOptions, Follower, serve_follower};
pub(crate) use leader::{LeaderCopies, copy, drop_copy, file, follow};
pub(crate) use state::Following;
