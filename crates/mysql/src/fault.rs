//! What an error of the server or its connection means for the next attempt.

use mysql_async::{DriverError, IoError, ServerError};
use quire_ship::Fault;

/// ER_MASTER_FATAL_ERROR_READING_BINLOG: all that a server has to say against a position.
const BINLOG_ERROR: u16 = 1236;

/// Errors after which another attempt may help: too many connections, shutdown, killed, timeouts,
/// a node of a cluster that takes no queries now (1047), broken packets (1158 to 1161); and columns
/// that were changed since the definition was read (1054, 1412).
const PASSING: &[u16] = &[
    1040, 1047, 1053, 1054, 1077, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1226, 1317, 1412, 1927,
    1969, 3024,
];

/// Says of a failed call whether another attempt may help.
pub(crate) trait OrFault<T> {
    /// The same result, with the error as a fault.
    fn or_fault(self) -> Result<T, Fault>;
}

impl<T> OrFault<T> for mysql_async::Result<T> {
    fn or_fault(self) -> Result<T, Fault> {
        self.map_err(fault)
    }
}

fn fault(error: mysql_async::Error) -> Fault {
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

fn of_server(error: &ServerError) -> Fault {
    let why = format!("{} (error {})", error.message, error.code);
    match error.code {
        BINLOG_ERROR if why.contains("GTID") => Fault::Lost(why),
        code if PASSING.contains(&code) => Fault::Away(why),
        _ => Fault::Stop(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_takes_no_queries_is_away_and_a_wrong_password_is_not() {
        for (code, is_away) in [(1047, true), (1158, true), (1161, true), (1045, false)] {
            let fault = of_server(&ServerError {
                code,
                message: "no".to_owned(),
                state: "HY000".to_owned(),
            });
            assert_eq!(matches!(fault, Fault::Away(_)), is_away, "{code}");
        }
    }
}
