//! What a run of a module may use.

/// Longest module, in bytes.
pub const MODULE_BYTES_MAX: usize = 1 << 20;

/// What a run of a module may use. Closures are not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of its memory; 16 MiB unless set.
    pub memory_bytes: usize,
    /// The fuel of one call: about one unit for each instruction, and for each byte that the host
    /// copies. 10,000,000 unless set, which takes some tens of milliseconds.
    pub fuel: u64,
    /// The most bytes that one call emits, with 8 more for each document; 1 MiB unless set.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory_bytes: 16 << 20,
            fuel: 10_000_000,
            output_bytes: 1 << 20,
        }
    }
}
