//! Session: requests to a server one after another, over one connection that is kept.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

use super::client::Remote;
use super::client_tls::RemoteStream;

/// The longest head of an answer, and the longest line between two chunks.
const HEAD_BYTES_MAX: u64 = 64 << 10;
const CHUNK_LINE_BYTES_MAX: u64 = 1 << 10;

/// Bytes that are read ahead.
const BUFFER_BYTES: usize = 256 << 10;

type Connection = BufReader<RemoteStream>;

/// A server, and the connection to it that is kept between requests.
#[derive(Debug)]
pub struct Session {
    remote: Remote,
    /// Of the last request, if its answer was read to the end.
    kept: Option<Connection>,
}

/// A server's answer over a session. Its head has been received; its body is read from it. Only
/// when it has been read to its end is the connection kept.
#[derive(Debug)]
pub struct SessionResponse<'s> {
    /// The status code.
    pub status: u16,
    session: &'s mut Session,
    connection: Option<Connection>,
    framing: Framing,
    is_kept: bool,
}

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// After this many bytes.
    Length(u64),
    /// After a chunk of no bytes; this many of the present one are left. None before the first.
    Chunked(Option<u64>),
    /// Where the connection ends.
    Connection,
}

impl Session {
    /// A session with a server; it connects with the first request.
    pub fn new(remote: Remote) -> Session {
        Session { remote, kept: None }
    }

    /// The server.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Whether the next request would use a connection that an earlier one has used. The server may
    /// have closed it meanwhile.
    pub fn is_connected(&self) -> bool {
        self.kept.is_some()
    }

    /// Sends a request and reads the head of the answer. Each read and each write may take up to
    /// `timeout`.
    ///
    /// # Errors
    /// Of the connection, which is then given up; if the answer is not HTTP.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        body: &[u8],
        timeout: Duration,
    ) -> io::Result<SessionResponse<'_>> {
        let mut connection = match self.kept.take() {
            Some(connection) => connection,
            None => {
                let stream = self.remote.connect(timeout)?;
                stream.socket().set_nodelay(true)?;
                BufReader::with_capacity(BUFFER_BYTES, stream)
            }
        };
        let stream = connection.get_mut();
        let head = self.remote.head(method, path, "HTTP/1.1", body.len());
        stream.write_all(head.as_bytes())?;
        // A server that refuses the request may close before it has taken the body.
        let sent = stream.write_all(body).and_then(|()| stream.flush());
        let head = match (read_head(&mut connection), sent) {
            (Ok(head), _) => head,
            (Err(_), Err(error)) | (Err(error), Ok(())) => return Err(error),
        };
        Ok(SessionResponse {
            status: head.status,
            session: self,
            connection: Some(connection),
            framing: head.framing,
            is_kept: head.is_kept,
        })
    }
}

impl SessionResponse<'_> {
    /// The whole body, of at most `bytes_max`.
    ///
    /// # Errors
    /// Of the connection; if the body is longer, or not UTF-8.
    pub fn text(mut self, bytes_max: u64) -> io::Result<String> {
        let mut text = String::new();
        let limit = bytes_max.saturating_add(1);
        self.by_ref().take(limit).read_to_string(&mut text)?;
        match text.len() as u64 > bytes_max {
            true => Err(io::Error::other("the answer is longer than expected")),
            false => Ok(text),
        }
    }

    /// The body is read to its end: the connection is kept for the next request.
    fn end(&mut self) {
        let connection = self.connection.take();
        if self.is_kept && self.framing != Framing::Connection {
            self.session.kept = connection;
        }
    }
}

impl Read for SessionResponse<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(connection) = &mut self.connection else {
            return Ok(0);
        };
        if buffer.is_empty() {
            return Ok(0);
        }
        let left = match &mut self.framing {
            Framing::Connection => u64::MAX,
            Framing::Length(left) => *left,
            Framing::Chunked(left) => {
                if left.is_none_or(|left| left == 0) {
                    *left = Some(next_chunk(connection, left.is_some())?);
                }
                left.unwrap_or(0)
            }
        };
        if left == 0 {
            self.end();
            return Ok(0);
        }
        let wanted = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = connection.read(buffer.get_mut(..wanted).unwrap_or_default())?;
        match &mut self.framing {
            Framing::Connection if read == 0 => self.end(),
            Framing::Connection => {}
            _ if read == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Framing::Length(left) | Framing::Chunked(Some(left)) => *left -= read as u64,
            Framing::Chunked(None) => {}
        }
        // The end of a body of known length needs no further byte.
        if self.framing == Framing::Length(0) {
            self.end();
        }
        Ok(read)
    }
}

/// Reads up to the bytes of the next chunk; its length, 0 at the end of the body. `is_after` one:
/// its line end comes first.
fn next_chunk(source: &mut impl BufRead, is_after: bool) -> io::Result<u64> {
    if is_after && !line(source)?.is_empty() {
        return Err(not_http());
    }
    let size = line(source)?;
    let size = size.split(';').next().unwrap_or_default().trim();
    let size = u64::from_str_radix(size, 16).map_err(|_| not_http())?;
    if size == 0 {
        // Trailers, of which none are of use.
        while !line(source)?.is_empty() {}
    }
    Ok(size)
}

/// A line of the framing, without its end.
fn line(source: &mut impl BufRead) -> io::Result<String> {
    let mut text = Vec::new();
    source
        .take(CHUNK_LINE_BYTES_MAX)
        .read_until(b'\n', &mut text)?;
    match text.strip_suffix(b"\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).trim_end().to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    framing: Framing,
    is_kept: bool,
}

/// Reads up to the body.
fn read_head(source: &mut impl BufRead) -> io::Result<Head> {
    let mut source = source.take(HEAD_BYTES_MAX);
    let mut next = || -> io::Result<String> {
        let mut text = Vec::new();
        source.read_until(b'\n', &mut text)?;
        match text.strip_suffix(b"\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).trim_end().to_owned()),
            None if text.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            None => Err(not_http()),
        }
    };
    let first = next()?;
    let version = first.strip_prefix("HTTP/1.").ok_or_else(not_http)?;
    let status = version
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let mut head = Head {
        status: status.ok_or_else(not_http)?,
        framing: Framing::Connection,
        is_kept: version.starts_with('1'),
    };
    loop {
        let field = next()?;
        if field.is_empty() {
            return Ok(head);
        }
        let (name, value) = field.split_once(':').ok_or_else(not_http)?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" if !matches!(head.framing, Framing::Chunked(_)) => {
                head.framing = Framing::Length(value.parse().map_err(|_| not_http())?);
            }
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => {
                head.framing = Framing::Chunked(None);
            }
            "connection" if value.eq_ignore_ascii_case("close") => head.is_kept = false,
            _ => {}
        }
    }
}

fn not_http() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the server's answer is not HTTP",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_say_where_the_body_ends() {
        let read = |text: &str| read_head(&mut text.as_bytes());
        let head = read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap();
        assert_eq!(
            (head.status, head.framing, head.is_kept),
            (200, Framing::Length(5), true)
        );
        let head =
            read("HTTP/1.1 429 x\r\ntransfer-encoding: chunked\r\nConnection: close\r\n\r\n");
        let head = head.unwrap();
        assert_eq!(
            (head.status, head.framing, head.is_kept),
            (429, Framing::Chunked(None), false)
        );
        assert_eq!(
            read("HTTP/1.0 200 OK\r\n\r\n").unwrap().framing,
            Framing::Connection
        );
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "x".repeat(1 << 20));
        for wrong in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 x\r\n\r\n",
            &endless,
        ] {
            assert!(read(wrong).is_err());
        }
    }

    #[test]
    fn chunks_are_read_to_the_last_and_anything_else_is_an_error() {
        let mut source = &b"4;x=y\r\nabcd\r\n0\r\nT: 1\r\n\r\nrest"[..];
        assert_eq!(next_chunk(&mut source, false).unwrap(), 4);
        source = &source[4..];
        assert_eq!(next_chunk(&mut source, true).unwrap(), 0);
        assert_eq!(source, b"rest");
        for wrong in ["", "4", "x\r\n", "-1\r\n", "0\r\n", "10000000000000000\r\n"] {
            assert!(
                next_chunk(&mut wrong.as_bytes(), false).is_err(),
                "{wrong:?}"
            );
        }
    }
}
