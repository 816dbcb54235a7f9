//! A connection: messages with their lengths, the password, TLS, simple queries.
//!
//! # Layout of a message
//! ```text
//! 0     1          5
//! | tag | length   | body |   big-endian; the length counts itself and the body
//! ```
//! Source: PostgreSQL documentation, "Frontend/Backend Protocol".

use crate::fault;
use crate::options::PostgresOptions;
use crate::reader::Reader;
use crate::tls::Tls;
use bytes::{Buf, Bytes, BytesMut};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::frontend;
use quire_ship::Fault;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// No value of PostgreSQL is longer, nor a row.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
const HEADER_BYTES: usize = 5;
const READ_BYTES: usize = 64 << 10;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Queries,
    Replication,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection.
pub(crate) struct Wire {
    stream: Box<dyn Stream>,
    read: BytesMut,
    pub(crate) out: BytesMut,
}

/// A message of the server.
pub(crate) struct Message {
    pub(crate) tag: u8,
    pub(crate) body: Bytes,
}

impl Wire {
    /// Connects and logs in.
    pub(crate) async fn connect(options: &PostgresOptions, what: Use) -> Result<Wire, Fault> {
        let stream = TcpStream::connect((options.host.as_str(), options.port)).await?;
        stream.set_nodelay(true)?;
        let mut wire = Wire {
            stream: secured(options, stream).await?,
            read: BytesMut::new(),
            out: BytesMut::new(),
        };
        let mut parameters = options.parameters();
        if what == Use::Replication {
            parameters.push(("replication", "database"));
        }
        frontend::startup_message(parameters, &mut wire.out)?;
        wire.send().await?;
        wire.log_in(options).await?;
        Ok(wire)
    }

    async fn log_in(&mut self, options: &PostgresOptions) -> Result<(), Fault> {
        let (user, password) = (options.user.as_bytes(), options.password.as_bytes());
        let mut scram = None;
        loop {
            let message = self.message().await?;
            match message.tag {
                b'E' => return Err(fault::of_server(error(&message.body)?)),
                b'Z' => return Ok(()),
                b'R' => {}
                _ => continue,
            }
            let mut reader = Reader::new(&message.body);
            let kind = reader.number()?;
            match (kind, &mut scram) {
                (0, _) => continue,
                (3 | 5 | 10, _) if password.is_empty() => {
                    return Err(Fault::Stop("the server wants a password".to_owned()));
                }
                (3, _) => frontend::password_message(password, &mut self.out)?,
                (5, _) => {
                    let salt = reader.number()?.to_be_bytes();
                    let hash = md5_hash(user, password, salt);
                    frontend::password_message(hash.as_bytes(), &mut self.out)?;
                }
                (10, _) => {
                    let mut is_offered = false;
                    while !reader.is_at_end() {
                        is_offered |= reader.name()? == SCRAM_SHA_256;
                    }
                    if !is_offered {
                        return Err(unknown_login());
                    }
                    let begun = ScramSha256::new(password, ChannelBinding::unsupported());
                    let first = begun.message();
                    frontend::sasl_initial_response(SCRAM_SHA_256, first, &mut self.out)?;
                    scram = Some(begun);
                }
                (11, Some(scram)) => {
                    scram.update(reader.rest()).map_err(login)?;
                    frontend::sasl_response(scram.message(), &mut self.out)?;
                }
                (12, Some(scram)) => {
                    scram.finish(reader.rest()).map_err(login)?;
                    continue;
                }
                _ => return Err(unknown_login()),
            }
            self.send().await?;
        }
    }

    /// Sends what is in `out`.
    pub(crate) async fn send(&mut self) -> Result<(), Fault> {
        self.stream.write_all_buf(&mut self.out).await?;
        Ok(self.stream.flush().await?)
    }

    /// The next message. May be dropped while it waits.
    pub(crate) async fn message(&mut self) -> Result<Message, Fault> {
        loop {
            if let Some(message) = split(&mut self.read)? {
                return Ok(message);
            }
            self.read.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(Fault::Away("the server closed the connection".to_owned()));
            }
        }
    }

    /// The rows of a query, or of several.
    pub(crate) async fn query(&mut self, sql: &str) -> Result<Vec<Row>, Fault> {
        self.query_first(sql, usize::MAX).await.map(|first| first.0)
    }

    /// The first rows of a query: about `bytes_max` bytes, but one row at least if there is one.
    /// The others are read from the connection and not kept. Also says whether there were others.
    pub(crate) async fn query_first(
        &mut self,
        sql: &str,
        bytes_max: usize,
    ) -> Result<(Vec<Row>, bool), Fault> {
        frontend::query(sql, &mut self.out)?;
        self.send().await?;
        let (mut rows, mut bytes, mut is_cut) = (Vec::new(), 0, false);
        let mut failed = None;
        loop {
            let message = self.message().await?;
            match message.tag {
                b'D' if bytes < bytes_max => {
                    bytes += message.body.len();
                    rows.push(row(&message.body)?);
                }
                b'D' => is_cut = true,
                b'E' => failed = Some(fault::of_server(error(&message.body)?)),
                b'Z' => return failed.map_or(Ok((rows, is_cut)), Err),
                _ => {}
            }
        }
    }
}

/// A row, as text.
pub(crate) type Row = Vec<Option<String>>;

/// Takes a whole message from the beginning of what was read.
fn split(read: &mut BytesMut) -> Result<Option<Message>, String> {
    let Some((header, rest)) = read.split_at_checked(HEADER_BYTES) else {
        return Ok(None);
    };
    let mut reader = Reader::new(header);
    let (tag, length) = (reader.byte()?, reader.number()? as usize);
    let length = length
        .checked_sub(4)
        .filter(|length| *length <= MESSAGE_BYTES_MAX);
    let Some(length) = length else {
        return Err(reader.wrong("its length is none of PostgreSQL's"));
    };
    if rest.len() < length {
        return Ok(None);
    }
    read.advance(HEADER_BYTES);
    let body = read.split_to(length).freeze();
    Ok(Some(Message { tag, body }))
}

/// Agrees on TLS, if it is wanted.
async fn secured(
    options: &PostgresOptions,
    mut stream: TcpStream,
) -> Result<Box<dyn Stream>, Fault> {
    if matches!(options.tls, Tls::Disable) {
        return Ok(Box::new(stream));
    }
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    stream.write_all_buf(&mut request).await?;
    match (stream.read_u8().await?, &options.tls) {
        (b'S', tls) => Ok(Box::new(tls.connect(&options.host, stream).await?)),
        (_, Tls::Prefer) => Ok(Box::new(stream)),
        _ => Err(Fault::Stop(
            "the server has no TLS: set ssl = on there, or sslmode = \"disable\"".to_owned(),
        )),
    }
}

fn row(body: &[u8]) -> Result<Row, String> {
    let mut reader = Reader::new(body);
    let mut row = Vec::new();
    for _ in 0..reader.short()? {
        row.push(match reader.number()? {
            u32::MAX => None,
            length => Some(reader.text(length as usize)?.to_owned()),
        });
    }
    reader.end().map(|()| row)
}

/// The text of an error, with its SQLSTATE behind it.
pub(crate) fn error(body: &[u8]) -> Result<String, String> {
    let mut reader = Reader::new(body);
    let (mut text, mut code) = (String::new(), String::new());
    loop {
        match reader.byte()? {
            0 => return Ok(format!("{text} (SQLSTATE {code})")),
            b'M' => text = reader.lossy_name()?,
            b'C' => code = reader.lossy_name()?,
            _ => drop(reader.lossy_name()?),
        }
    }
}

fn unknown_login() -> Fault {
    Fault::Stop("the server wants a login that is neither by password nor by trust".to_owned())
}

fn login(error: std::io::Error) -> Fault {
    Fault::Stop(format!("login: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut read = BytesMut::from(bytes.as_slice());
            while let Ok(Some(message)) = split(&mut read) {
                let _ = (row(&message.body), error(&message.body));
            }
            let _ = (row(&bytes), error(&bytes));
        }
    }

    #[test]
    fn rows_that_memory_has_no_room_for_are_left_out_and_that_is_said() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let row = |text: u8| [b"D\0\0\0\x0b\0\x01\0\0\0\x01".as_slice(), &[text]].concat();
        let answer = [row(b'a'), row(b'b'), row(b'c'), b"Z\0\0\0\x05I".to_vec()].concat();
        let first = |bytes_max| {
            let rows = runtime.block_on(async {
                let (own, mut server) = tokio::io::duplex(1 << 10);
                let mut wire = Wire {
                    stream: Box::new(own),
                    read: BytesMut::new(),
                    out: BytesMut::new(),
                };
                server.write_all(&answer).await.unwrap();
                wire.query_first("SELECT", bytes_max).await.unwrap()
            });
            let texts = rows.0.into_iter().flatten().flatten();
            (texts.collect::<String>(), rows.1)
        };
        assert_eq!(first(1), ("a".to_owned(), true));
        assert_eq!(first(8), ("ab".to_owned(), true));
        assert_eq!(first(100), ("abc".to_owned(), false));
    }

    #[test]
    fn messages_are_split_and_lengths_that_no_message_has_are_refused() {
        let mut read = BytesMut::from(b"D\0\0\0\x05xZ\0\0\0\x04E\0\0".as_slice());
        let message = split(&mut read).unwrap().unwrap();
        assert_eq!((message.tag, &*message.body), (b'D', b"x".as_slice()));
        assert_eq!(split(&mut read).unwrap().unwrap().tag, b'Z');
        assert!(split(&mut read).unwrap().is_none());
        for wrong in [b"D\0\0\0\x03", b"D\xff\xff\xff\xff"] {
            assert!(split(&mut BytesMut::from(wrong.as_slice())).is_err());
        }
        let found = row(b"\0\x02\xff\xff\xff\xff\0\0\0\x01y").unwrap();
        assert_eq!(found, [None, Some("y".to_owned())]);
        assert_eq!(
            error(b"SERROR\0C57P03\0Mno\0\0").unwrap(),
            "no (SQLSTATE 57P03)"
        );
    }
}
