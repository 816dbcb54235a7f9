//! A simulated machine.

/// A simulated machine.
#[derive(Debug)]
pub struct SimEnv;
