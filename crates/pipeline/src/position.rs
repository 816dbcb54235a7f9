//! Where a pipeline is in its inputs.

/// A place between two documents of the inputs. The default is the start of the first input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourcePosition {
    /// The index of the input, from 0. The inputs before it have been read.
    pub input: usize,
    /// The count of documents of this input before this place, bad ones included.
    pub documents: u64,
    /// The offset of this place in the input, in bytes.
    pub byte: u64,
}
