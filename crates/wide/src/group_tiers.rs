//! [`GroupTiers`]: the two tiers of a column group, and when cells move between them.
//!
//! As JSON: `{"hot":"ssd","cold":"hdd","after":"7d","reads":3,"bytes_per_second":8388608}`.

use quire_env::Medium;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;

/// How fast cells move unless it is said.
pub(crate) const BYTES_PER_SECOND: u64 = 8 << 20;

/// The shortest age, and the longest, in seconds: a hundred years.
pub(crate) const AFTER: std::ops::RangeInclusive<u64> = 1..=100 * 365 * 86_400;

/// Units of an age, by seconds.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];

/// The two tiers of a column group. The cells that a row has in the group are all in the one or all
/// in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupTiers {
    /// Where cells are written, and come back to.
    pub hot: Medium,
    /// Where they go.
    pub cold: Medium,
    /// When: so long after cells of the row were last written in the group.
    pub after: Duration,
    /// Cells come back once the row was read this number of times; only when they are written, if
    /// none. Reads are counted in memory, and scans do not count.
    pub reads: Option<u32>,
    /// The bytes of cells that move in a second at most, in each partition.
    pub bytes_per_second: u64,
}

impl GroupTiers {
    /// From SSDs to HDDs after this time.
    pub fn after(after: Duration) -> GroupTiers {
        GroupTiers {
            hot: Medium::Ssd,
            cold: Medium::Hdd,
            after,
            reads: None,
            bytes_per_second: BYTES_PER_SECOND,
        }
    }

    /// Whether they can be.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.hot == self.cold {
            let medium = self.hot;
            return Err(format!(
                "tiers: hot and cold are both {medium}; use \"tier\": \"{medium}\" for one tier"
            ));
        }
        if !AFTER.contains(&self.after.as_secs()) {
            return Err("tiers: after is at least 1s, and at most 36500d".into());
        }
        if self.reads == Some(0) || self.bytes_per_second == 0 {
            return Err("tiers: reads and bytes_per_second are at least 1".into());
        }
        Ok(())
    }

    pub(crate) fn after_micros(&self) -> i64 {
        i64::try_from(self.after.as_micros()).unwrap_or(i64::MAX)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    hot: String,
    cold: String,
    after: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reads: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes_per_second: Option<u64>,
}

impl Serialize for GroupTiers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = Json {
            hot: self.hot.to_string(),
            cold: self.cold.to_string(),
            after: age_text(self.after),
            reads: self.reads,
            bytes_per_second: Some(self.bytes_per_second),
        };
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for GroupTiers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GroupTiers, D::Error> {
        use serde::de::Error;
        let json = Json::deserialize(deserializer)?;
        let medium = |field: &str, text: &str| {
            let medium: Result<Medium, quire_env::Error> = text.parse();
            medium.map_err(|error| D::Error::custom(format!("tiers: {field}: {error}")))
        };
        Ok(GroupTiers {
            hot: medium("hot", &json.hot)?,
            cold: medium("cold", &json.cold)?,
            after: parse_age(&json.after)
                .map_err(|what| D::Error::custom(format!("tiers: after: {what}")))?,
            reads: json.reads,
            bytes_per_second: json.bytes_per_second.unwrap_or(BYTES_PER_SECOND),
        })
    }
}

/// A time of whole seconds as schemas have it: a number and `d`, `h`, `m` or `s`, as `7d`.
///
/// # Errors
/// What is wrong.
pub fn parse_age(text: &str) -> Result<Duration, String> {
    let wrong = || {
        let shown: String = text.chars().take(40).collect();
        format!("{shown:?} is no time: use a number and d, h, m or s, as \"7d\"")
    };
    let parsed = UNITS.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(*unit)?.parse().ok()?;
        number.checked_mul(*seconds)
    });
    parsed.map(Duration::from_secs).ok_or_else(wrong)
}

pub(crate) fn age_text(age: Duration) -> String {
    let seconds = age.as_secs();
    let mut units = UNITS.iter();
    let whole = units.find(|(_, unit)| seconds.is_multiple_of(*unit));
    let (unit, length) = whole.unwrap_or(&('s', 1));
    format!("{}{unit}", seconds / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_numbers_with_a_unit() {
        for (text, seconds) in [("7d", 604_800), ("36h", 129_600), ("90m", 5400), ("1s", 1)] {
            assert_eq!(parse_age(text), Ok(Duration::from_secs(seconds)));
            assert_eq!(age_text(Duration::from_secs(seconds)), text);
        }
        for text in [
            "",
            "7",
            "d",
            "-1d",
            "1.5h",
            "7 d",
            "1w",
            "99999999999999999999d",
        ] {
            assert!(parse_age(text).is_err(), "{text}");
        }
        assert!(parse_age("18446744073709551615d").is_err());
    }
}
