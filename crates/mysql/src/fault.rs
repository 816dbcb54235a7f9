//! Why the server could not be read, and what that means for the next attempt.

use mysql_async::{DriverError, IoError, ServerError};
use quire_ship::Error;

/// ER_MASTER_FATAL_ERROR_READING_BINLOG: all that a server has to say against a position.
const BINLOG_ERROR: u16 = 1236;

/// Errors after which another attempt may help: too many connections, shutdown, killed, timeouts;
/// and columns that were changed since the definition was read (1054, 1412).
const PASSING: &[u16] = &[
    1040, 1053, 1054, 1077, 1203, 1205, 1213, 1226, 1317, 1412, 1927, 1969, 3024,
];

/// Why.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Another attempt may help.
    Away(String),
    /// The binlog no longer has what comes after the position.
    Lost(String),
    /// Another attempt would not help.
    Stop(String),
}

impl From<mysql_async::Error> for Fault {
    fn from(error: mysql_async::Error) -> Fault {
        match error {
            mysql_async::Error::Server(error) => of_server(&error),
            // Bytes that can't be decoded stay so.
            mysql_async::Error::Io(IoError::Io(error))
                if error.kind() == std::io::ErrorKind::InvalidData =>
            {
                Fault::Stop(error.to_string())
            }
            mysql_async::Error::Driver(error @ DriverError::UnknownAuthPlugin { .. }) => {
                Fault::Stop(error.to_string())
            }
            error => Fault::Away(error.to_string()),
        }
    }
}

fn of_server(error: &ServerError) -> Fault {
    let why = format!("{} (error {})", error.message, error.code);
    match error.code {
        BINLOG_ERROR if why.contains("GTID") => Fault::Lost(why),
        code if PASSING.contains(&code) => Fault::Away(why),
        _ => Fault::Stop(why),
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        match fault {
            Fault::Away(why) => Error::SourceAway(why),
            Fault::Stop(why) => Error::Source(why),
            Fault::Lost(why) => Error::Source(format!(
                "the server no longer has the binlog after the stored position: {why}. Rows may \
                 have changed unseen. To read all rows anew, set on_lost_position = \"snapshot\" \
                 in [source]; rows that were deleted meanwhile then stay in the sinks, unless \
                 their indexes are built anew (`quire reindex`)"
            )),
        }
    }
}
