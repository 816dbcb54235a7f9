//! The real machine.

/// The real machine.
#[derive(Debug)]
pub struct OsEnv;
