//! HTTP requests to a server of Quire.

use quire_server::Remote;
use std::io;
use std::time::Duration;

/// The longest wait for the server, and the longest answer.
const TIMEOUT: Duration = Duration::from_secs(60);
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A server's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The status code.
    pub(crate) status: u16,
    /// The body.
    pub(crate) body: String,
}

/// Sends a request over a new connection and reads the answer.
///
/// # Errors
/// Of the connection, and if the answer is not HTTP.
pub(crate) fn request(server: &Remote, method: &str, path: &str, json: &str) -> io::Result<Answer> {
    let response = server.request(method, path, json.as_bytes(), TIMEOUT)?;
    Ok(Answer {
        status: response.status,
        body: response.text(ANSWER_BYTES_MAX)?,
    })
}

/// Text as one segment of a path.
pub(crate) fn segment(text: &str) -> String {
    let mut segment = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                segment.push(byte.into())
            }
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_fit_in_paths() {
        assert_eq!(segment("g++/é-1.0"), "g%2B%2B%2F%C3%A9-1.0");
    }
}
