//! What an error of the server means for the next attempt.

use quire_ship::Fault;

/// SQLSTATEs, and classes of them, after which another attempt may help: connections, too many of
/// them, conflicts of transactions, a slot that another connection still has, a server that stops
/// or starts, a cancelled statement.
const PASSING: [&str; 9] = [
    "08", "40", "53200", "53300", "55006", "55P03", "57014", "57P", "58030",
];

/// What the server said.
pub(crate) fn of_server(why: String) -> Fault {
    let state = state(&why);
    match PASSING.iter().any(|passing| state.starts_with(passing)) {
        true => Fault::Away(why),
        false => Fault::Stop(why),
    }
}

/// The SQLSTATE that is behind the message.
pub(crate) fn state(why: &str) -> &str {
    let state = why.rsplit_once("(SQLSTATE ").map(|(_, state)| state);
    state.unwrap_or_default().trim_end_matches(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_starts_is_away_and_a_wrong_password_is_not() {
        for (why, is_away) in [
            ("the database system is starting up (SQLSTATE 57P03)", true),
            ("slot is active for PID 7 (SQLSTATE 55006)", true),
            ("all replication slots are in use (SQLSTATE 53400)", false),
            ("password authentication failed (SQLSTATE 28P01)", false),
            ("no state", false),
        ] {
            let fault = of_server(why.to_owned());
            assert_eq!(matches!(fault, Fault::Away(_)), is_away, "{why}");
        }
    }
}
