//! [`MappingError`]: a mapping that can't be.

/// What is wrong with a mapping, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MappingError(pub(super) String);
