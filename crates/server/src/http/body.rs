//! A request's body as it arrives: decompressed, and bounded in length and in time.

use std::io::Write;
use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use http_body::Body as _;
use http_body_util::BodyExt;
use quire_model::DOCUMENT_BYTES_MAX;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::buffers::{Buffers, COPIES, Held, LARGE_BYTES, written_bytes};
use super::failure::{Failure, Outcome};
use crate::options::ServerOptions;

/// The largest body that is held whole: the largest document and the envelope of an update.
pub(crate) const WHOLE_BYTES_MAX: usize = DOCUMENT_BYTES_MAX + (1 << 20);

/// The largest body that is parsed into a tree of values, such as settings or lists of ids.
pub(crate) const SMALL_BYTES_MAX: usize = 2 << 20;

/// The most bytes of a tree for a byte of its text.
const TREE_FACTOR: usize = 16;

/// The most bytes that decompression takes: its window, and a piece of what it made.
const GUNZIP_BYTES: usize = 96 << 10;

/// How often a compressed body that does not come looks whether others wait for memory.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A body that has taken longer than the time for one piece must come at least so fast, on average
/// over the time that the server waited for it.
const RATE_BYTES_MIN: u64 = 1 << 10;

/// While others wait for memory, a body that holds much must come at least so fast, after a time in
/// which it may come as it likes.
const SHORT_RATE_BYTES_MIN: u64 = 256 << 10;
const SHORT_GRACE: Duration = Duration::from_secs(5);

/// A client that sends nothing for this long gives its room back.
pub(crate) const STALLED_AFTER: Duration = Duration::from_millis(100);

/// How much of a body that no handler needs, and for how long, is read and discarded so that the
/// connection can be kept. Of a longer one the rest is discarded after the answer: the connection
/// is closed, and lingers.
const DRAIN_BYTES_MAX: usize = 256 << 10;
const DRAIN_TIME_MAX: Duration = Duration::from_millis(50);

/// A body as it arrives. If it is dropped before its end, it hands what is left to its [`Rest`].
pub(crate) struct BodyReader {
    body: Body,
    /// None once the body has ended.
    rest: Option<oneshot::Sender<Option<Body>>>,
    gzip: Option<Gunzip>,
    /// What has arrived and was not returned yet.
    arrived: Option<Bytes>,
    /// Bytes returned so far.
    bytes: u64,
    bytes_max: u64,
    /// The longest wait for the next piece.
    idle_timeout: Duration,
    /// How long the server has waited for pieces, and the bytes that came, before decompression.
    waited: Duration,
    received_bytes: u64,
    /// The body's length as the client states it, before decompression.
    length: Option<u64>,
    /// The client waits for `100 Continue` before it sends the body.
    is_expecting: bool,
}

/// What a handler has left of a body: nothing is sent if it read all, `None` if the client does not
/// send the rest, or is too slow.
pub(crate) struct Rest(oneshot::Receiver<Option<Body>>);

impl Rest {
    /// Reads and discards it, within limits. Returns whether that was all of it: only then can
    /// another request follow on the connection.
    pub(crate) async fn drain(mut self) -> bool {
        let mut body = match self.0.try_recv() {
            Err(_) => return true,
            Ok(None) => return false,
            Ok(Some(body)) => body,
        };
        let mut left = DRAIN_BYTES_MAX;
        let all = async {
            while let Some(Ok(frame)) = body.frame().await {
                left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
                if left == 0 {
                    return false;
                }
            }
            body.is_end_stream()
        };
        let drained = tokio::time::timeout(DRAIN_TIME_MAX, all).await;
        drained.unwrap_or(false)
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        // A client that waits for `100 Continue` gets the answer instead, and does not send the
        // body.
        let is_coming = !self.is_expecting || self.bytes > 0;
        if let Some(rest) = self.rest.take()
            && !self.body.is_end_stream()
        {
            // If nothing receives it, nothing needs it.
            let _ = rest.send(is_coming.then(|| std::mem::take(&mut self.body)));
        }
    }
}

/// A body held whole, with the memory reserved for it.
pub(crate) struct Whole {
    pub(crate) bytes: Bytes,
    /// The length of the body, or a longer one that has its memory when it is written.
    length: u64,
    held: Held,
    /// The memory reserved for a document that is read because of it.
    room: Option<Held>,
}

impl Whole {
    /// Releases the bytes, of which something was made that needs the memory.
    pub(crate) fn release_bytes(&mut self) {
        self.bytes = Bytes::new();
    }

    /// The memory reserved for the document that was read because of it, or for the body.
    pub(crate) fn into_held(self) -> Held {
        self.room.unwrap_or(self.held)
    }

    /// Reserves what writing the body takes, as a document or one within it.
    ///
    /// # Errors
    /// 413 if there is never so much, 429 if it is not free.
    pub(crate) fn reserve_written(&mut self) -> Outcome<()> {
        if self.length <= LARGE_BYTES {
            return Ok(());
        }
        let bytes = written_bytes(&self.bytes);
        self.length = self.length.max(bytes.div_ceil(COPIES) as u64);
        self.held.resize(bytes)
    }

    /// Reserves memory for a document that is read and changed, waiting up to `timeout` for it. A
    /// large body does not wait, because it holds memory.
    ///
    /// # Errors
    /// 413 if there is never so much, 429 if it is not free.
    pub(crate) async fn make_room(
        &mut self,
        buffers: &Buffers,
        document_bytes: u64,
        timeout: Duration,
    ) -> Outcome<()> {
        self.room = None;
        if self.length > LARGE_BYTES {
            return self.held.resize(merged_bytes(document_bytes, self.length));
        }
        self.room = Some(buffers.hold_large(document_bytes, timeout).await?);
        Ok(())
    }
}

/// The most bytes that a document takes while another is merged into it, and the result is written.
/// First both and the result, which may be refused as too long; then the other one and the result,
/// in as many copies as a document that is written.
fn merged_bytes(document_bytes: u64, other_bytes: u64) -> usize {
    let both = document_bytes.saturating_add(other_bytes);
    let written = both.min(DOCUMENT_BYTES_MAX as u64) * COPIES as u64;
    let most = both
        .saturating_mul(2)
        .max(other_bytes.saturating_add(written));
    usize::try_from(most).unwrap_or(usize::MAX)
}

impl BodyReader {
    /// # Errors
    /// 415 if the body is compressed otherwise than by gzip.
    pub(crate) fn new(
        headers: &HeaderMap,
        body: Body,
        options: &ServerOptions,
    ) -> Outcome<(BodyReader, Rest)> {
        let text = |name| {
            headers
                .get(name)
                .map(|value| value.to_str().unwrap_or("?").trim())
        };
        let gzip = match text(header::CONTENT_ENCODING) {
            None | Some("" | "identity") => None,
            Some("gzip" | "x-gzip") => Some(Gunzip::default()),
            Some(other) => {
                let reason = format!(
                    "Content-Encoding [{other}] is not supported; send gzip, or the body \
                     uncompressed"
                );
                return Err(Failure::new(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "illegal_argument_exception",
                    reason,
                ));
            }
        };
        let (rest, receiver) = oneshot::channel();
        let reader = BodyReader {
            body,
            rest: Some(rest),
            gzip,
            arrived: None,
            bytes: 0,
            bytes_max: options.body_bytes_max,
            idle_timeout: options.idle_timeout,
            waited: Duration::ZERO,
            received_bytes: 0,
            length: text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok()),
            is_expecting: headers.contains_key(header::EXPECT),
        };
        Ok((reader, Rest(receiver)))
    }

    /// Waits until the body begins to arrive, or has ended. Nothing is decompressed yet.
    ///
    /// # Errors
    /// As [`piece`](Self::piece).
    pub(crate) async fn arrive(&mut self) -> Outcome<()> {
        self.arrived = self.receive().await?;
        Ok(())
    }

    /// The next piece, never empty; none at the end.
    ///
    /// # Errors
    /// 413 past the limit, 408 if nothing arrives for too long, 400 if the client cuts the body or
    /// it is not valid gzip.
    pub(crate) async fn piece(&mut self) -> Outcome<Option<Bytes>> {
        loop {
            if let Some(piece) = self.gzip.as_mut().map(Gunzip::step).transpose()?.flatten() {
                return self.counted(piece);
            }
            let received = self.receive().await?;
            match (&mut self.gzip, received) {
                (Some(gzip), Some(bytes)) => gzip.compressed = bytes,
                (None, Some(bytes)) => return self.counted(bytes),
                (_, None) => {
                    return match self.gzip.take() {
                        Some(gzip) => gzip.finish()?.map_or(Ok(None), |piece| self.counted(piece)),
                        None => Ok(None),
                    };
                }
            }
        }
    }

    /// The next bytes as the client sends them, never none of them; none at the end.
    async fn receive(&mut self) -> Outcome<Option<Bytes>> {
        if let Some(arrived) = self.arrived.take() {
            return Ok(Some(arrived));
        }
        if self.length.is_some_and(|length| length > self.bytes_max) {
            return Err(body_too_large(self.bytes_max));
        }
        loop {
            let begun = Instant::now();
            let frame = tokio::time::timeout(self.patience(), self.body.frame()).await;
            self.waited = self.waited.saturating_add(begun.elapsed());
            let Ok(frame) = frame else {
                return Err(self.too_slow());
            };
            let Some(Ok(frame)) = frame else {
                self.rest = None;
                return match frame {
                    None => Ok(None),
                    Some(_) => Err(Failure::parse(
                        "the connection ended before the request body did",
                    )),
                };
            };
            let bytes = frame.into_data().unwrap_or_default();
            self.received_bytes = self.received_bytes.saturating_add(bytes.len() as u64);
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
    }

    /// Bytes of memory that the body takes itself.
    pub(crate) fn own_bytes(&self) -> usize {
        match self.gzip {
            Some(_) => GUNZIP_BYTES,
            None => 0,
        }
    }

    /// The next piece. If the client keeps it waiting, the reservation becomes one of `bytes`,
    /// which are held, and no more: others can have the room. What decompression takes is theirs
    /// too, if they wait for it.
    ///
    /// # Errors
    /// As [`piece`](Self::piece); 408 if others wait for what decompression takes.
    pub(crate) async fn piece_held(
        &mut self,
        held: &mut Held,
        bytes: usize,
        buffers: &Buffers,
    ) -> Outcome<Option<Bytes>> {
        let is_compressed = self.gzip.is_some();
        let late = {
            let mut piece = pin!(self.piece());
            if let Ok(piece) = tokio::time::timeout(STALLED_AFTER, piece.as_mut()).await {
                return piece;
            }
            held.resize(bytes)?;
            tokio::select! {
                biased;
                piece = piece => Some(piece),
                () = shortage(buffers), if is_compressed => None,
            }
        };
        late.unwrap_or_else(|| Err(self.too_slow_for_others()))
    }

    /// How long to wait for the next piece: never longer than for one, and no longer than a body
    /// may take that comes as slowly as this one.
    fn patience(&self) -> Duration {
        let earned = Duration::from_millis(self.received_bytes * 1000 / RATE_BYTES_MIN);
        let left = earned.max(self.idle_timeout).saturating_sub(self.waited);
        left.min(self.idle_timeout)
    }

    /// Whether the body keeps much memory from others who wait for it: the server has waited for
    /// the client longer than a body takes that comes fast enough.
    pub(crate) fn keeps_others_waiting(&self, held: &Held, buffers: &Buffers) -> bool {
        let earned = Duration::from_millis(self.received_bytes * 1000 / SHORT_RATE_BYTES_MIN);
        held.is_heavy() && self.waited > SHORT_GRACE + earned && buffers.are_short()
    }

    /// The failure of a body that comes too slowly while others wait for its memory; nothing more
    /// is read of it.
    pub(crate) fn too_slow_for_others(&mut self) -> Failure {
        if let Some(rest) = self.rest.take() {
            let _ = rest.send(None);
        }
        let reason = "the request body came too slowly while other requests waited for its memory";
        Failure::new(StatusCode::REQUEST_TIMEOUT, "timeout_exception", reason)
    }

    fn counted(&mut self, piece: Bytes) -> Outcome<Option<Bytes>> {
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
        if self.bytes > self.bytes_max {
            return Err(body_too_large(self.bytes_max));
        }
        Ok(Some(piece))
    }

    /// The whole body, at most [`WHOLE_BYTES_MAX`] bytes, within `timeout`.
    pub(crate) async fn whole(self, buffers: &Buffers, timeout: Duration) -> Outcome<Whole> {
        self.within(buffers, timeout, WHOLE_BYTES_MAX, COPIES).await
    }

    /// The whole body, at most [`SMALL_BYTES_MAX`] bytes, and memory for the tree it is parsed to.
    pub(crate) async fn small(self, buffers: &Buffers, timeout: Duration) -> Outcome<Whole> {
        self.within(buffers, timeout, SMALL_BYTES_MAX, TREE_FACTOR)
            .await
    }

    async fn within(
        mut self,
        buffers: &Buffers,
        timeout: Duration,
        max: usize,
        factor: usize,
    ) -> Outcome<Whole> {
        let all = self.collect(buffers, timeout, max, factor);
        match tokio::time::timeout(timeout, all).await {
            Ok(result) => result,
            Err(_) => Err(self.too_slow()),
        }
    }

    /// The failure of a client that is too slow; nothing more is read from it.
    fn too_slow(&mut self) -> Failure {
        if let Some(rest) = self.rest.take() {
            let _ = rest.send(None);
        }
        let reason = "the request body did not arrive in time";
        Failure::new(StatusCode::REQUEST_TIMEOUT, "timeout_exception", reason)
    }

    async fn collect(
        &mut self,
        buffers: &Buffers,
        timeout: Duration,
        max: usize,
        factor: usize,
    ) -> Outcome<Whole> {
        let length = self.length.filter(|_| self.gzip.is_none());
        let length = length.filter(|length| *length > LARGE_BYTES && *length <= max as u64);
        // The first bytes arrive before memory is taken for all.
        self.arrive().await?;
        let own = self.own_bytes();
        let (mut held, mut all) = match length {
            Some(length) if factor == COPIES => {
                let held = buffers.hold_large_to_write(length, timeout).await?;
                (held, Vec::with_capacity(length as usize))
            }
            _ => (buffers.hold(own.max(1), timeout).await?, Vec::new()),
        };
        let expected = all.capacity();
        let mut next = self.piece().await?;
        while let Some(piece) = next {
            let bytes = all.len().saturating_add(piece.len());
            if bytes > max {
                return Err(body_too_large(max as u64));
            }
            let wanted = bytes.max(expected).saturating_mul(factor);
            held.resize(wanted.saturating_add(own))?;
            all.extend_from_slice(&piece);
            drop(piece);
            if self.keeps_others_waiting(&held, buffers) {
                return Err(self.too_slow_for_others());
            }
            let bytes = all.len().saturating_add(own);
            next = self.piece_held(&mut held, bytes, buffers).await?;
        }
        if own > 0 {
            // Decompression has ended.
            held.resize(held.bytes().saturating_sub(own))?;
        }
        Ok(Whole {
            length: all.len() as u64,
            bytes: all.into(),
            held,
            room: None,
        })
    }
}

/// Returns when requests wait for memory.
async fn shortage(buffers: &Buffers) {
    while !buffers.are_short() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Decompression, a step at a time.
#[derive(Default)]
struct Gunzip {
    /// Made when the body begins: it takes memory.
    decoder: Option<MultiGzDecoder<Vec<u8>>>,
    compressed: Bytes,
}

impl Gunzip {
    /// Decompresses until there is output; none when all input is used.
    fn step(&mut self) -> Outcome<Option<Bytes>> {
        while !self.compressed.is_empty() {
            let new = || MultiGzDecoder::new(Vec::new());
            let decoder = self.decoder.get_or_insert_with(new);
            // It takes no more input than its buffer of 32 KiB has room for the output of.
            let bytes = decoder.write(&self.compressed).map_err(not_gzip)?;
            if bytes == 0 {
                return Err(not_gzip(std::io::ErrorKind::WriteZero.into()));
            }
            self.compressed.advance(bytes);
            let out = std::mem::take(decoder.get_mut());
            if !out.is_empty() {
                return Ok(Some(out.into()));
            }
        }
        Ok(None)
    }

    fn finish(self) -> Outcome<Option<Bytes>> {
        let decoder = self
            .decoder
            .unwrap_or_else(|| MultiGzDecoder::new(Vec::new()));
        let out = decoder.finish().map_err(not_gzip)?;
        Ok(Some(Bytes::from(out)).filter(|out| !out.is_empty()))
    }
}

fn not_gzip(error: std::io::Error) -> Failure {
    Failure::parse(format!(
        "the request body is cut or not valid gzip: {error}"
    ))
}

fn body_too_large(bytes_max: u64) -> Failure {
    Failure::too_large(format!(
        "the request body is larger than the limit of {bytes_max} bytes; send it in parts"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn reader(bytes: Vec<u8>, encoding: &'static str, bytes_max: u64) -> BodyReader {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, encoding.parse().unwrap());
        let options = ServerOptions {
            body_bytes_max: bytes_max,
            ..ServerOptions::default()
        };
        BodyReader::new(&headers, Body::from(bytes), &options)
            .unwrap()
            .0
    }

    async fn read(mut reader: BodyReader) -> Outcome<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(piece) = reader.piece().await? {
            assert!(!piece.is_empty());
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[tokio::test]
    async fn a_gzip_body_reads_as_what_was_compressed_and_a_cut_one_fails() {
        let text: Vec<u8> = (0..40_000u32).flat_map(u32::to_le_bytes).collect();
        let zipped = gzip(&text);
        assert_eq!(
            read(reader(zipped.clone(), "gzip", 1 << 20)).await.unwrap(),
            text
        );
        assert_eq!(
            read(reader(text.clone(), "identity", 1 << 20))
                .await
                .unwrap(),
            text
        );
        for cut in [0, 5, 12, zipped.len() / 2, zipped.len() - 1] {
            let failure = read(reader(zipped[..cut].to_vec(), "gzip", 1 << 20))
                .await
                .unwrap_err();
            assert_eq!(failure.status, StatusCode::BAD_REQUEST, "{cut}");
        }
    }

    #[tokio::test]
    async fn a_gzip_bomb_ends_at_the_limit() {
        let bomb = gzip(&vec![0; 64 << 20]);
        let mut reader = reader(bomb, "gzip", 1 << 20);
        let failure = loop {
            match reader.piece().await {
                Ok(Some(piece)) => assert!(piece.len() <= 64 << 10),
                Ok(None) => panic!("the limit was not kept"),
                Err(failure) => break failure,
            }
        };
        assert_eq!(failure.status, StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[tokio::test]
    async fn a_body_too_large_to_hold_is_refused_whatever_its_limit() {
        let budget = quire_env::Budget::new(64 << 20);
        let buffers = Buffers::new(&budget, &budget);
        let timeout = Duration::from_secs(5);
        let body = reader(vec![b' '; WHOLE_BYTES_MAX + 1], "identity", u64::MAX);
        let failure = body.whole(&buffers, timeout).await.err().unwrap();
        assert_eq!(failure.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(buffers.used_bytes(), 0);
    }

    /// What becomes of a body of 4 MiB, of which half has come in a minute.
    async fn slow_body(buffers: &Buffers) -> Outcome<Whole> {
        let half = Bytes::from(vec![b' '; 2 << 20]);
        let pieces = [half.clone(), half].map(Ok::<_, std::io::Error>);
        let stream = futures_util::stream::iter(pieces);
        let body = Body::from_stream(stream);
        let options = ServerOptions::default();
        let mut reader = BodyReader::new(&HeaderMap::new(), body, &options)?.0;
        reader.length = Some(4 << 20);
        reader.waited = Duration::from_secs(60);
        reader.whole(buffers, Duration::from_secs(60)).await
    }

    #[tokio::test]
    async fn a_slow_body_gives_way_to_others_who_wait_for_its_memory() {
        let budget = quire_env::Budget::new(64 << 20);
        let buffers = Buffers::new(&budget, &budget);
        assert_eq!(slow_body(&buffers).await.unwrap().bytes.len(), 4 << 20);
        let other = buffers.waiter();
        let failure = slow_body(&buffers).await.err().unwrap();
        assert_eq!(failure.status, StatusCode::REQUEST_TIMEOUT);
        drop(other);
        assert!(slow_body(&buffers).await.is_ok());
    }
}
