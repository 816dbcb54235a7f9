//! Stream: lines of JSON, made piece by piece as the client takes them, each with its memory
//! reserved. Between two pieces a stream holds its view of the collection and no memory.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;

use super::row::write_text;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::buffers::{Buffers, LARGE_BYTES};
use crate::http::failure::{Failure, Outcome};
use crate::search::state::SearchState;

/// A piece ends after this many bytes.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// What making a piece may hold.
const HELD_BYTES: usize = 2 * PIECE_BYTES + 2 * LARGE_BYTES as usize;

/// What follows a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// More lines.
    More,
    /// The line of a document of this many bytes, which needs memory of its own.
    Large(u64),
    /// Nothing: the answer is whole.
    End,
}

/// Makes the lines of an answer.
pub(super) trait Producer: Send + Sized + 'static {
    /// Appends lines of about [`PIECE_BYTES`]; after [`Next::Large`] the line of that document
    /// alone. Blocks.
    ///
    /// # Errors
    /// Of the database.
    fn produce(&mut self, out: &mut Vec<u8>) -> Outcome<Next>;
}

/// The answer whose lines `producer` makes. The first piece is made at once, so that what fails in
/// it has a status; a later failure is a line.
///
/// # Errors
/// Of the first piece.
pub(super) async fn answer(state: SearchState, producer: impl Producer) -> Outcome<Answer> {
    let answering = Answering {
        engine: state.engine,
        buffers: state.buffers,
        timeout: state.memory_timeout,
        producer,
        next: Next::More,
    };
    let (answering, first) = answering.piece().await?;
    let pieces = stream::unfold(
        (Some(answering), Some(first)),
        |(state, first)| async move {
            if let Some(first) = first {
                return Some((Ok::<_, io::Error>(first), (state, None)));
            }
            let answering = state.filter(|answering| answering.next != Next::End)?;
            match answering.piece().await {
                Ok((answering, piece)) => Some((Ok(piece), (Some(answering), None))),
                Err(failure) => Some((Ok(error_line(&failure)), (None, None))),
            }
        },
    );
    Ok(Answer::line_stream(Box::pin(pieces)))
}

fn error_line(failure: &Failure) -> Bytes {
    let mut line = Vec::new();
    write_text("error", failure.reason(), &mut line);
    line.into()
}

struct Answering<P> {
    engine: Engine,
    buffers: Buffers,
    /// The longest wait for memory.
    timeout: Duration,
    producer: P,
    next: Next,
}

impl<P: Producer> Answering<P> {
    /// Makes the next piece, once there is memory for it.
    async fn piece(mut self) -> Outcome<(Answering<P>, Bytes)> {
        loop {
            let held = match self.next {
                Next::Large(bytes) => self.buffers.hold_large(bytes, self.timeout).await?,
                Next::More | Next::End => self.buffers.hold(HELD_BYTES, self.timeout).await?,
            };
            let engine = self.engine.clone();
            let made = engine.read(move |_| {
                let mut piece = Vec::new();
                self.next = self.producer.produce(&mut piece)?;
                piece.shrink_to_fit();
                Ok::<_, Failure>((self, held.keep(piece)?))
            });
            let piece;
            (self, piece) = made.await??;
            if !piece.is_empty() || self.next == Next::End {
                return Ok((self, piece));
            }
        }
    }
}
