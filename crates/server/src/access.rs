//! Who may call, and what: the token of the server, and named tokens with roles.
//!
//! # Invariants
//! 1. A server that was started with a token or a file of tokens never serves a caller without one,
//!    whatever becomes of the file.
//! 2. No secret of a named token is kept: only its hash.

pub(crate) mod caller;
pub(crate) mod grant;
pub(crate) mod guesses;
pub(crate) mod lifetime;
pub(crate) mod named;
pub(crate) mod pattern;
pub(crate) mod record;
pub(crate) mod role;
pub(crate) mod secret;
pub(crate) mod tokens;
