//! A small blocking HTTP client, enough to call a Quire server.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The longest head of an answer.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server's answer. Its head has been received; its body is read from it.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    body: BufReader<TcpStream>,
}

impl Read for Response {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.body.read(buf)
    }
}

impl Response {
    /// The whole body, of at most `bytes_max`.
    ///
    /// # Errors
    /// Of the connection; if the body is longer, or not UTF-8.
    pub fn text(self, bytes_max: u64) -> io::Result<String> {
        let mut text = String::new();
        self.body.take(bytes_max + 1).read_to_string(&mut text)?;
        match text.len() as u64 > bytes_max {
            true => Err(io::Error::other("the answer is longer than expected")),
            false => Ok(text),
        }
    }

    /// The socket, to shut it down from another thread.
    ///
    /// # Errors
    /// If the operating system can't make another handle.
    pub(crate) fn socket(&self) -> io::Result<TcpStream> {
        self.body.get_ref().try_clone()
    }
}

/// Sends a request over a new connection to the server at `address`, as `HOST:PORT`, and reads the
/// head of the answer. `token` is the server's, if it has one. Each read and each write may take up
/// to `timeout`.
///
/// # Errors
/// Of the connection, and if the answer is not HTTP.
pub fn request(
    address: &str,
    method: &str,
    path: &str,
    body: &[u8],
    token: Option<&str>,
    timeout: Duration,
) -> io::Result<Response> {
    let mut stream = connect(address, timeout.min(CONNECT_TIMEOUT))?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let authorization = match token {
        Some(token) => format!("Authorization: Bearer {token}\r\n"),
        None => String::new(),
    };
    // HTTP/1.0: the answer ends where the connection does.
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\n{authorization}Content-Type: \
         application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut body = BufReader::with_capacity(256 << 10, stream);
    let status = read_head(&mut body)?;
    Ok(Response { status, body })
}

fn connect(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Reads up to the body; returns the status.
fn read_head(source: &mut impl BufRead) -> io::Result<u16> {
    let not_http = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the server's answer is not HTTP",
        )
    };
    let mut head = source.take(HEAD_BYTES_MAX);
    let mut line = Vec::new();
    head.read_until(b'\n', &mut line)?;
    let first = String::from_utf8_lossy(&line).into_owned();
    let status = first
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1));
    let status = status
        .and_then(|status| status.trim().parse().ok())
        .ok_or_else(not_http)?;
    loop {
        line.clear();
        head.read_until(b'\n', &mut line)?;
        match line.as_slice() {
            b"\r\n" | b"\n" => return Ok(status),
            [.., b'\n'] => {}
            _ => return Err(not_http()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_and_anything_else_is_an_error() {
        let mut answer = &b"HTTP/1.0 404 Not Found\r\ncontent-length: 2\r\n\r\n{}"[..];
        assert_eq!(read_head(&mut answer).unwrap(), 404);
        assert_eq!(answer, b"{}");
        let endless = [b"HTTP/1.1 200 OK\r\n".as_slice(), &vec![b'x'; 1 << 20]].concat();
        for bad in [
            &b""[..],
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 x\r\n\r\n",
            b"SSH-2.0-OpenSSH\r\n",
            &endless,
        ] {
            assert!(read_head(&mut &bad[..]).is_err());
        }
    }
}
