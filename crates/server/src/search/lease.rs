//! How long a search context is kept.

use std::time::Duration;

use super::filter::unsupported;
use crate::http::failure::Outcome;

/// The longest lease, as in OpenSearch.
const LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A lease: a whole number and a unit, such as `5m`.
pub(crate) fn lease(text: &str) -> Outcome<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let millis = match unit {
        "d" => 86_400_000,
        "h" => 3_600_000,
        "m" => 60_000,
        "s" => 1000,
        "ms" => 1,
        _ => 0,
    };
    let lease = digits
        .parse::<u64>()
        .ok()
        .and_then(|count| count.checked_mul(millis));
    match lease.map(Duration::from_millis) {
        Some(lease) if !lease.is_zero() && lease <= LEASE_MAX => Ok(lease),
        _ => Err(unsupported(format!(
            "[{text}] must be a time from 1ms to 24h, such as [5m]"
        ))),
    }
}
