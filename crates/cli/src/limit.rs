//! The limits of a client from the command line: `requests=100,bytes=10MiB,running=4`.

use crate::size::Size;
use quire_server::Limit;

/// What one address may take.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn of_address(text: &str) -> Result<Limit, String> {
    parse(
        text,
        &["requests", "bytes", "running", "searches", "connections"],
    )
}

/// What one token may take.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn of_token(text: &str) -> Result<Limit, String> {
    parse(text, &["requests", "bytes", "running", "searches"])
}

fn parse(text: &str, known: &[&str]) -> Result<Limit, String> {
    let mut limit = Limit::default();
    for part in text.split(',') {
        let (name, number) = part.split_once('=').unwrap_or((part, ""));
        let place = match name {
            _ if !known.contains(&name) => None,
            "requests" => Some(&mut limit.requests),
            "bytes" => Some(&mut limit.bytes),
            "running" => Some(&mut limit.running),
            "searches" => Some(&mut limit.searches),
            "connections" => Some(&mut limit.connections),
            _ => None,
        };
        let place = place.ok_or_else(|| {
            format!(
                "there is no limit `{name}`; the limits are {}",
                known.join(", ")
            )
        })?;
        let number = match name {
            "bytes" => number.parse().map(|Size(bytes)| bytes).ok(),
            _ => number.parse().ok(),
        };
        let number = number.filter(|number| *number > 0).ok_or_else(|| {
            let example = if name == "bytes" { "10MiB" } else { "100" };
            format!("`{part}` is no limit: give a number over zero, as in {name}={example}")
        })?;
        if place.replace(number).is_some() {
            return Err(format!("`{name}` is given twice"));
        }
    }
    Ok(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_wrong_ones_named() {
        let limit = of_address("requests=100,bytes=1KiB,searches=2,connections=9").unwrap();
        let expected = Limit {
            requests: Some(100),
            bytes: Some(1024),
            running: None,
            searches: Some(2),
            connections: Some(9),
        };
        assert_eq!(limit, expected);
        for (text, word) in [
            ("", "the limits are"),
            ("speed=1", "speed"),
            ("requests", "requests=100"),
            ("requests=0", "over zero"),
            ("bytes=fast", "bytes=10MiB"),
            ("running=1,running=2", "twice"),
        ] {
            let error = of_address(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
        assert!(of_token("connections=1").is_err());
    }
}
