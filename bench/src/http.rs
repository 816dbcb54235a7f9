//! A small client of HTTP/1.1 for servers of JSON.

use crate::Result;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What takes longer is taken as hung.
const PATIENCE: Duration = Duration::from_secs(300);

/// A connection that is kept open.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client {
            stream: BufReader::new(stream),
            request: Vec::new(),
        })
    }

    /// The status and the body of the answer.
    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<(u16, Vec<u8>)> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        self.request.clear();
        self.request.extend_from_slice(head.as_bytes());
        self.request.extend_from_slice(body);
        self.stream.get_mut().write_all(&self.request)?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).ok_or("no answer")?.parse()?;
        let (mut length, mut is_chunked) = (0, false);
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                None => break,
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse()?;
                }
                Some((name, "chunked")) => {
                    is_chunked |= name.eq_ignore_ascii_case("transfer-encoding");
                }
                Some(_) => {}
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        while is_chunked {
            line.clear();
            self.stream.read_line(&mut line)?;
            let chunk = usize::from_str_radix(line.trim_end(), 16)?;
            let begin = body.len();
            body.resize(begin + chunk, 0);
            self.stream.read_exact(&mut body[begin..])?;
            line.clear();
            self.stream.read_line(&mut line)?;
            is_chunked = chunk > 0;
        }
        Ok((status, body))
    }

    pub(crate) fn json(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Value> {
        let (status, body) = self.request(method, path, body)?;
        match status {
            200..=299 => Ok(serde_json::from_slice(&body)?),
            _ => Err(format!(
                "{method} {path}: {status} {}",
                String::from_utf8_lossy(&body)
            )
            .into()),
        }
    }
}
