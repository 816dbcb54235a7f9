//! A small blocking HTTP client, enough to call a Quire server.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use quiredb::Env;

use super::client_tls::{ClientTls, ClientTlsFiles, RemoteError, RemoteStream};

/// The longest head of an answer.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server's answer. Its head has been received; its body is read from it.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    body: BufReader<RemoteStream>,
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
        self.body.get_ref().socket().try_clone()
    }
}

/// A server of Quire, as its clients see it. Each request has a connection of its own.
#[derive(Clone)]
pub struct Remote {
    /// `HOST:PORT`.
    address: String,
    token: Option<String>,
    tls: Option<ClientTls>,
}

/// Never shows the token.
impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("url", &self.url())
            .field("token", &self.token.as_ref().map(|_| "(hidden)"))
            .finish()
    }
}

impl Remote {
    /// The server at a URL, `http://HOST:PORT` or `https://HOST:PORT`. `token` is for a server that
    /// needs one, `files` for one that speaks TLS.
    ///
    /// # Errors
    /// If the URL is no such address; for https, if the files can't be used.
    pub fn new(
        env: &Arc<dyn Env>,
        url: &str,
        token: Option<String>,
        files: &ClientTlsFiles,
    ) -> Result<Remote, RemoteError> {
        let (is_tls, rest) = match url.strip_prefix("https://") {
            Some(rest) => (true, Some(rest)),
            None => (false, url.strip_prefix("http://")),
        };
        let address = rest
            .map(|rest| rest.trim_end_matches('/'))
            .filter(|address| address.contains(':') && !address.contains('/'))
            .ok_or_else(|| RemoteError::Url(url.to_owned()))?;
        let tls = match is_tls {
            true => Some(ClientTls::new(env, url, address, files)?),
            false if files.is_empty() => None,
            false => return Err(RemoteError::NotTls(url.to_owned())),
        };
        Ok(Remote {
            address: address.to_owned(),
            token,
            tls,
        })
    }

    /// A server without TLS and without a token.
    pub fn plain(address: SocketAddr) -> Remote {
        Remote {
            address: address.to_string(),
            token: None,
            tls: None,
        }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        match self.tls {
            Some(_) => format!("https://{}", self.address),
            None => format!("http://{}", self.address),
        }
    }

    /// Sends a request over a new connection, and reads the head of the answer. Each read and each
    /// write may take up to `timeout`. Redirects are not followed.
    ///
    /// # Errors
    /// Of the connection, if the server's certificate is not trusted, and if the answer is not
    /// HTTP.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
        timeout: Duration,
    ) -> io::Result<Response> {
        let mut stream = self.connect(timeout)?;
        // HTTP/1.0: the answer ends where the connection does.
        let head = self.head(method, path, "HTTP/1.0", body.len());
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        stream.flush()?;
        let mut body = BufReader::with_capacity(256 << 10, stream);
        let status = read_head(&mut body)?;
        Ok(Response { status, body })
    }

    /// A new connection.
    pub(super) fn connect(&self, timeout: Duration) -> io::Result<RemoteStream> {
        let stream = connect(&self.address, timeout.min(CONNECT_TIMEOUT))?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        match &self.tls {
            Some(tls) => tls.begin(stream),
            None => Ok(RemoteStream::Plain(stream)),
        }
    }

    /// The head of a request with a body of this length.
    pub(super) fn head(&self, method: &str, path: &str, version: &str, bytes: usize) -> String {
        let address = &self.address;
        let authorization = match &self.token {
            Some(token) => format!("Authorization: Bearer {token}\r\n"),
            None => String::new(),
        };
        format!(
            "{method} {path} {version}\r\nHost: {address}\r\n{authorization}Content-Type: \
             application/json\r\nContent-Length: {bytes}\r\n\r\n"
        )
    }
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
