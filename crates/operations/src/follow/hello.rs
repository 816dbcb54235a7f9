//! What a follower says when it connects: whose copy it is, and how far each partition is.

use super::cursor::Cursor;
use quire_database::catalog::Catalog;
use serde::{Deserialize, Serialize};

/// The version of what a follower says.
pub(super) const HELLO_VERSION: u32 = 1;

/// What a follower says when it connects.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    pub(super) catalog: Catalog,
    pub(super) cursors: Vec<Cursor>,
}
