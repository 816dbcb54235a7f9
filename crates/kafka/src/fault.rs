//! Why the brokers could not be called, and what that means for the next attempt.

use quire_ship::{Error, Failure};
use rskafka::client::error::{Error as KafkaError, ProtocolError};

/// What errors of logins and certificates have in their text: the library has no other way to
/// tell them.
const REFUSALS: [&str; 4] = [
    "invalid peer certificate",
    "SaslAuthenticationFailed",
    "UnsupportedSaslMechanism",
    "IllegalSaslState",
];

/// Why.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Another attempt may help.
    Away(String),
    /// The topic no longer has what comes after the position.
    Lost(String),
    /// A batch of records is larger than the topic takes.
    TooLarge(String),
    /// Another attempt would not help.
    Stop(String),
}

impl From<KafkaError> for Fault {
    fn from(error: KafkaError) -> Fault {
        let why = error.to_string();
        match error {
            KafkaError::ServerError { protocol_error, .. } => of_server(protocol_error, why),
            _ if REFUSALS.iter().any(|refusal| why.contains(refusal)) => Fault::Stop(why),
            _ => Fault::Away(why),
        }
    }
}

fn of_server(error: ProtocolError, why: String) -> Fault {
    match error {
        ProtocolError::OffsetOutOfRange => Fault::Lost(why),
        ProtocolError::MessageTooLarge | ProtocolError::RecordListTooLarge => Fault::TooLarge(why),
        ProtocolError::TopicAuthorizationFailed
        | ProtocolError::ClusterAuthorizationFailed
        | ProtocolError::InvalidTopicException
        | ProtocolError::InvalidTimestamp
        | ProtocolError::InvalidRecord
        | ProtocolError::UnsupportedCompressionType => Fault::Stop(why),
        _ => Fault::Away(why),
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        match fault {
            Fault::Away(why) => Error::SourceAway(why),
            Fault::Stop(why) | Fault::TooLarge(why) => Error::Source(why),
            Fault::Lost(why) => Error::Source(format!(
                "the topic no longer has what comes after the stored position: {why}. Changes may \
                 be missing. To go on where the topic begins, set on_lost_position = \"snapshot\" \
                 in [source]; documents whose deletions are missing then stay in the sinks, unless \
                 their indexes are built anew (`quire reindex`)"
            )),
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        match fault {
            Fault::Away(why) => Failure::NoAnswer(why),
            Fault::TooLarge(why) => Failure::TooLarge(why),
            Fault::Stop(why) | Fault::Lost(why) => Failure::Final(why),
        }
    }
}
