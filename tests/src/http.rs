//! A plain HTTP/1.1 client over one connection: enough to query a server, and nothing that could
//! hide its answers.

use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection that is kept open from one request to the next.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects. A read times out after two minutes.
    ///
    /// # Errors
    /// No server listens there.
    pub fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        Ok(Connection {
            stream: BufReader::new(stream),
        })
    }

    /// Sends a request, and returns the status and the body of the answer.
    pub fn request(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        let mut message = head.into_bytes();
        message.extend_from_slice(body);
        self.send(&message)?;
        self.receive(method == "HEAD")
    }

    /// Sends a request whose answer must be JSON.
    #[track_caller]
    pub fn json(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        let (status, body) = self.request(method, path, body).unwrap();
        let text = String::from_utf8_lossy(&body);
        (
            status,
            serde_json::from_str(&text)
                .unwrap_or_else(|_| panic!("{method} {path}: {status} {text}")),
        )
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Closes the sending side.
    pub fn end(&mut self) -> io::Result<()> {
        self.stream.get_mut().shutdown(std::net::Shutdown::Write)
    }

    /// Reads one answer.
    pub fn receive(&mut self, is_head: bool) -> io::Result<(u16, Vec<u8>)> {
        let status_line = self.line()?;
        let status = status_line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status: u16 =
            status.ok_or_else(|| io::Error::other(format!("not HTTP: {status_line:?}")))?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':') {
                None => break,
                Some(("content-length", value)) => {
                    length = value.trim().parse().map_err(io::Error::other)?
                }
                Some(("transfer-encoding", value)) => chunked = value.trim() == "chunked",
                Some(_) => {}
            }
        }
        let mut body = Vec::new();
        match chunked {
            _ if is_head => {}
            true => while self.chunk(&mut body)? > 0 {},
            false => self.bytes(length, &mut body)?,
        }
        Ok((status, body))
    }

    fn chunk(&mut self, body: &mut Vec<u8>) -> io::Result<usize> {
        let length = usize::from_str_radix(&self.line()?, 16).map_err(io::Error::other)?;
        self.bytes(length, body)?;
        self.line()?;
        Ok(length)
    }

    fn bytes(&mut self, length: usize, body: &mut Vec<u8>) -> io::Result<()> {
        let start = body.len();
        body.resize(start + length, 0);
        self.stream.read_exact(&mut body[start..])
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed the connection",
            ));
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}
