//! When a write is acknowledged.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// When a write is acknowledged, and so what a crash may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// After fsync: an acknowledged write survives any crash. Writers that wait at the same time
    /// share one fsync.
    #[default]
    Sync,
    /// At once; an fsync follows at the latest this long after. A crash of the machine takes at
    /// most that much, and what survives is a prefix of what was written.
    Async(Duration),
    /// At once; durable only when memtables are flushed, on request, and on close. For loads that
    /// can be run again.
    None,
}

/// The delay of `async` where none is given.
const ASYNC_DEFAULT: Duration = Duration::from_millis(100);

/// The longest delay of `async`: longer is `none` by another name.
const ASYNC_MAX: Duration = Duration::from_secs(60);

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Sync => f.write_str("sync"),
            Durability::Async(delay) => write!(f, "async({})", delay.as_millis()),
            Durability::None => f.write_str("none"),
        }
    }
}

impl FromStr for Durability {
    type Err = String;

    /// Parses `sync`, `async` (100 ms), `async(250)`, `async(250ms)` or `none`.
    fn from_str(text: &str) -> Result<Durability, String> {
        let problem =
            || format!("unknown durability {text:?}: use sync, async(MILLISECONDS) or none");
        match text {
            "sync" => return Ok(Durability::Sync),
            "none" => return Ok(Durability::None),
            "async" => return Ok(Durability::Async(ASYNC_DEFAULT)),
            _ => {}
        }
        let inner = text
            .strip_prefix("async(")
            .and_then(|rest| rest.strip_suffix(')'))
            .ok_or_else(problem)?;
        let millis: u64 = inner
            .strip_suffix("ms")
            .unwrap_or(inner)
            .trim()
            .parse()
            .map_err(|_| problem())?;
        let delay = Duration::from_millis(millis);
        if delay.is_zero() || delay > ASYNC_MAX {
            return Err(format!(
                "async({millis}) is out of range: 1 to {} ms",
                ASYNC_MAX.as_millis()
            ));
        }
        Ok(Durability::Async(delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in ["sync", "async(1)", "async(250)", "async(60000)", "none"] {
            assert_eq!(text.parse::<Durability>().unwrap().to_string(), text);
        }
        assert_eq!("async".parse(), Ok(Durability::Async(ASYNC_DEFAULT)));
        assert_eq!(
            "async(5ms)".parse(),
            Ok(Durability::Async(Duration::from_millis(5)))
        );
    }

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        for text in [
            "",
            "Sync",
            "async()",
            "async(0)",
            "async(-1)",
            "async(60001)",
            "async(1",
            "fsync",
        ] {
            assert!(text.parse::<Durability>().is_err(), "{text}");
        }
    }
}
