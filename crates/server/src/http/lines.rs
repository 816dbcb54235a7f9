//! A body split into lines as it arrives. It holds at most one line and one piece of the body. Its
//! memory reservation always matches what it and its user hold.

use bytes::{Bytes, BytesMut};
use quire_model::DOCUMENT_BYTES_MAX;

use super::body::BodyReader;
use super::buffers::{Buffers, Held, LARGE_BYTES};
use super::failure::Outcome;

/// The longest line that is returned: the largest document.
const LINE_BYTES_MAX: usize = DOCUMENT_BYTES_MAX;

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Text(Bytes),
    /// Longer than a document can be: its length in bytes. It was discarded.
    TooLong(u64),
}

/// The lines of a body.
pub(crate) struct Lines {
    body: BodyReader,
    buffers: Buffers,
    buffer: BytesMut,
    /// The number of bytes at the start of the buffer that hold no line end.
    scanned: usize,
    /// Bytes of the current line that were discarded.
    skipped: u64,
    /// Number of the last line returned, from 1.
    number: u64,
    held: Held,
    /// The smallest reservation: enough for a body of ordinary lines.
    held_bytes_least: usize,
    /// Bytes that the user of the lines holds.
    beside_bytes: usize,
    /// It comes slowly, and others wait for memory: no more is held than is needed.
    is_slow: bool,
}

impl Lines {
    /// `held` is a reservation of `held_bytes_least` of `buffers`.
    pub(crate) fn new(
        body: BodyReader,
        buffers: &Buffers,
        held: Held,
        held_bytes_least: usize,
    ) -> Lines {
        let buffer = BytesMut::new();
        Lines {
            body,
            buffers: buffers.clone(),
            buffer,
            scanned: 0,
            skipped: 0,
            number: 0,
            held,
            held_bytes_least,
            beside_bytes: 0,
            is_slow: false,
        }
    }

    /// The next line; none at the end of the body. A last line without an end counts, unless it is
    /// empty.
    pub(crate) async fn next(&mut self) -> Outcome<Option<Line>> {
        loop {
            let fresh = self.buffer.get(self.scanned..).unwrap_or_default();
            if let Some(end) = memchr::memchr(b'\n', fresh) {
                let mut line = self.buffer.split_to(self.scanned + end + 1);
                line.truncate(line.len().saturating_sub(1));
                return Ok(Some(self.finish(line)));
            }
            self.scanned = self.buffer.len();
            if self.scanned > LINE_BYTES_MAX {
                self.skipped = self.skipped.saturating_add(self.scanned as u64);
                self.buffer = BytesMut::new();
                self.scanned = 0;
            }
            match self.piece().await? {
                Some(piece) => {
                    self.buffer.extend_from_slice(&piece);
                    self.hold()?;
                }
                None if self.buffer.is_empty() && self.skipped == 0 => return Ok(None),
                None => {
                    let line = self.buffer.split();
                    return Ok(Some(self.finish(line)));
                }
            }
        }
    }

    /// The next piece of the body. While the client keeps it waiting, the reservation is what is
    /// held, and no more: others can have the room.
    ///
    /// # Errors
    /// 408 if others wait for memory that the body, coming slowly, holds.
    async fn piece(&mut self) -> Outcome<Option<Bytes>> {
        let bytes = self.bytes();
        self.is_slow = self.is_slow && self.buffers.are_short()
            || self.body.keeps_others_waiting(&self.held, &self.buffers);
        if self.is_slow {
            self.held.resize(bytes)?;
            if self.held.is_heavy() {
                return Err(self.body.too_slow_for_others());
            }
        }
        self.body
            .piece_held(&mut self.held, bytes, &self.buffers)
            .await
    }

    fn finish(&mut self, line: BytesMut) -> Line {
        self.number += 1;
        self.scanned = 0;
        let bytes = std::mem::take(&mut self.skipped).saturating_add(line.len() as u64);
        if bytes > LINE_BYTES_MAX as u64 {
            return Line::TooLong(bytes);
        }
        if bytes > LARGE_BYTES {
            // What follows it would keep its memory when the line itself is freed.
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        Line::Text(line.freeze())
    }

    /// Number of the last line returned, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Sets how many bytes the user holds now, in lines and in what it makes of them.
    ///
    /// # Errors
    /// 429 if that much memory is not free.
    pub(crate) fn hold_beside(&mut self, bytes: usize) -> Outcome<()> {
        self.beside_bytes = bytes;
        self.hold()
    }

    fn hold(&mut self) -> Outcome<()> {
        let bytes = self.bytes();
        let least = match self.is_slow {
            true => 0,
            false => self.held_bytes_least,
        };
        // What was given back may be gone; what is needed now may still be there.
        match self.held.resize(bytes.max(least)) {
            Err(_) if bytes < least => self.held.resize(bytes),
            held => held,
        }
    }

    /// Bytes that the lines and their user hold.
    fn bytes(&self) -> usize {
        // A buffer that grows may allocate twice what it needs.
        let buffer = self.buffer.len().saturating_mul(2);
        buffer
            .saturating_add(self.beside_bytes)
            .saturating_add(self.body.own_bytes())
    }

    /// The reservation, changed to `bytes`, for what was made of the lines.
    pub(crate) fn into_held(mut self, bytes: usize) -> Outcome<Held> {
        self.held.resize(bytes)?;
        Ok(self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ServerOptions;
    use axum::body::Body;
    use axum::http::HeaderMap;

    async fn lines_of(pieces: Vec<Vec<u8>>) -> Vec<Line> {
        let stream = futures_util::stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
        let body = Body::from_stream(stream);
        let budget = quire_env::Budget::new(64 << 20);
        let buffers = Buffers::new(&budget, &budget);
        let held = buffers.hold_now(1).unwrap();
        let (body, _) =
            BodyReader::new(&HeaderMap::new(), body, &ServerOptions::default()).unwrap();
        let mut lines = Lines::new(body, &buffers, held, 1);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push(line);
            assert_eq!(lines.number(), found.len() as u64);
        }
        found
    }

    #[tokio::test]
    async fn lines_are_the_same_however_the_body_is_cut() {
        let text = b"one\r\n\n\ntwo three\nfour";
        let expected: Vec<Line> = text
            .split(|byte| *byte == b'\n')
            .map(|line| Line::Text(Bytes::copy_from_slice(line)))
            .collect();
        for cut in 0..=text.len() {
            let pieces = vec![text[..cut].to_vec(), text[cut..].to_vec()];
            assert_eq!(lines_of(pieces).await, expected, "{cut}");
        }
        assert_eq!(lines_of(vec![]).await, []);
        assert_eq!(
            lines_of(vec![b"a\n".to_vec()]).await,
            [Line::Text("a".into())]
        );
    }

    #[tokio::test]
    async fn a_line_too_long_is_discarded_and_the_next_one_read() {
        let mut pieces = vec![vec![b'x'; 1 << 20]; 18];
        pieces.push(b"x\nnext\n".to_vec());
        let lines = lines_of(pieces).await;
        assert_eq!(
            lines,
            [Line::TooLong((18 << 20) + 1), Line::Text("next".into())]
        );
    }
}
