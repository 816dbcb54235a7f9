//! Following over HTTP: a leader's routes, and a follower that calls them.
//!
//! - `POST /_follow` answers with messages without end: the records after those that the follower
//!   says it has.
//! - `POST /_follow/copy/{id}` answers with the list of files in a copy as of now. The copy is held
//!   under the follower's id.
//! - `GET /_follow/copy/{id}/{name}` answers with the file of this number.
//! - `DELETE /_follow/copy/{id}` releases the copy.
//!
//! The messages are those of [`quiredb::operations::Frame`]. A follower sends HTTP/1.0 requests, so
//! an answer ends where its connection does.

mod client;
mod client_tls;
pub(crate) mod follower;
pub(crate) mod leader;
mod session;
pub(crate) mod status;

pub use client::{Remote, Response};
pub use client_tls::{ClientTlsFiles, RemoteError};
pub use follower::{FollowOptions, Follower};
pub use session::{Session, SessionResponse};
