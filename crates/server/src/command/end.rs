//! End: the last line of a whole answer.

use serde::{Deserialize, Serialize};

/// What the last line of a whole answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The documents in the answer.
    pub documents: u64,
}

impl End {
    /// Appends the line.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            format!("{{\"end\":{{\"documents\":{}}}}}\n", self.documents).as_bytes(),
        );
    }
}
