//! [`Partition`]: an open file of a folder.

use crate::FrozenFile;
use quire_env::FileStamp;

/// A file that is open.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) name: String,
    pub(crate) stamp: FileStamp,
    pub(crate) file: FrozenFile,
}
