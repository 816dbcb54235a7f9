//! Why a database that is a source could not be read, and what that means for the next attempt.

use crate::error::Error;

/// Why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Another attempt may help.
    Away(String),
    /// The server no longer has what comes after the stored place.
    Lost(String),
    /// Another attempt would not help.
    Stop(String),
}

/// A connection that broke.
impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Fault {
        Fault::Away(error.to_string())
    }
}

/// Bytes that can't be read stay so.
impl From<String> for Fault {
    fn from(why: String) -> Fault {
        Fault::Stop(why)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        match fault {
            Fault::Away(why) => Error::SourceAway(why),
            Fault::Stop(why) => Error::Source(why),
            Fault::Lost(why) => Error::Source(format!(
                "the server no longer has the changes after the stored position: {why}. Rows may \
                 have changed unseen. To read all rows anew, set on_lost_position = \"snapshot\" \
                 in [source]; rows that were deleted meanwhile then stay in the sinks, unless \
                 their indexes are built anew (`quire reindex`)"
            )),
        }
    }
}
