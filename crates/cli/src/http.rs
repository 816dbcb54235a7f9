//! The few lines of HTTP that a command needs to call a server of Quire, as any client would.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
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

/// Sends a request over a connection of its own and reads the answer. `token` is what the server asks of its callers, if it
/// does.
///
/// # Errors
/// Of the connection, and if the answer is no HTTP.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    json: &str,
    token: Option<&str>,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    // HTTP/1.0: the answer ends where the connection does.
    let length = json.len();
    let authorization = match token {
        Some(token) => format!("Authorization: Bearer {token}\r\n"),
        None => String::new(),
    };
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\n{authorization}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(json.as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    parse(&answer).ok_or_else(|| io::Error::other("the server's answer is not HTTP"))
}

fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head
        .strip_prefix("HTTP/1.")?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()?;
    Some(Answer {
        status,
        body: body.to_owned(),
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
    fn answers_are_taken_apart_and_keys_fit_in_paths() {
        let answer = parse("HTTP/1.0 404 Not Found\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (404, "{}"));
        assert!(parse("").is_none() && parse("HTTP/1.1 x\r\n\r\n").is_none());
        assert_eq!(segment("g++/é-1.0"), "g%2B%2B%2F%C3%A9-1.0");
    }
}
