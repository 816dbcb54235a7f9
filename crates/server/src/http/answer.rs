//! The answer to a request, and how it is sent: filtered, formatted, and with its memory reserved
//! while a slow client reads it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http_body::{Frame, SizeHint};
use quiredb::{Document, ValueRef};
use serde::Serialize;

use super::buffers::{Buffers, Held, SMALL_BYTES};
use super::failure::{Failure, Outcome};
use super::fields::Fields;
use super::params::Params;
use super::pretty::Pretty;

const JSON: &str = "application/json; charset=UTF-8";
const LINES: &str = "application/x-ndjson";

/// What filtering an answer holds of it: the answer, its tree, and what is shown of it.
pub(crate) const FILTER_COPIES: usize = 3;

/// Bytes passed to the connection at a time.
const PIECE_BYTES: usize = 64 << 10;

/// How the caller wants the answer formatted.
#[derive(Debug, Clone, Default)]
pub(crate) struct AnswerFormat {
    pub(crate) pretty: bool,
    pub(crate) filter: Fields,
}

impl AnswerFormat {
    pub(crate) fn of(params: &Params) -> Outcome<AnswerFormat> {
        params.flag("human")?;
        params.flag("error_trace")?;
        let filter = params
            .text("filter_path")
            .map(Fields::filter_path)
            .transpose()?
            .unwrap_or_default();
        Ok(AnswerFormat {
            pretty: params.flag("pretty")?.unwrap_or(false),
            filter,
        })
    }
}

/// The answer to a request.
pub(crate) struct Answer {
    status: StatusCode,
    content: Content,
}

enum Content {
    /// JSON, and the memory reserved for it.
    Json(Vec<u8>, Option<Held>),
    /// JSON in pieces, its fields already filtered, and the memory reserved for it.
    Parts(Vec<Bytes>, Option<Held>),
    /// JSON made as the client reads it, its fields already filtered.
    Stream(BoxStream<'static, io::Result<Bytes>>),
    /// Lines of JSON, as they are, and the memory reserved for them.
    Lines(Vec<u8>, Held),
    /// Bytes of a type, made as the client reads them.
    Frames(&'static str, BoxStream<'static, io::Result<Bytes>>),
    Text(&'static str, String),
    /// Bytes as they are, of a type.
    Bytes(&'static str, Bytes),
}

impl Answer {
    pub(crate) fn json(status: StatusCode, json: Vec<u8>) -> Answer {
        Answer {
            status,
            content: Content::Json(json, None),
        }
    }

    /// JSON whose memory is reserved.
    pub(crate) fn held_json(status: StatusCode, json: Vec<u8>, held: Option<Held>) -> Answer {
        Answer {
            status,
            content: Content::Json(json, held),
        }
    }

    pub(crate) fn value(status: StatusCode, value: &impl Serialize) -> Answer {
        let mut json = Vec::new();
        let written = serde_json::to_writer(&mut json, value);
        debug_assert!(written.is_ok(), "what is answered can be JSON");
        Answer::json(status, json)
    }

    pub(crate) fn ok(value: &impl Serialize) -> Answer {
        Answer::value(StatusCode::OK, value)
    }

    pub(crate) fn parts(parts: Vec<Bytes>, held: Option<Held>) -> Answer {
        Answer {
            status: StatusCode::OK,
            content: Content::Parts(parts, held),
        }
    }

    /// Lines of JSON.
    pub(crate) fn lines(lines: Vec<u8>, held: Held) -> Answer {
        Answer {
            status: StatusCode::OK,
            content: Content::Lines(lines, held),
        }
    }

    pub(crate) fn stream(stream: BoxStream<'static, io::Result<Bytes>>) -> Answer {
        Answer {
            status: StatusCode::OK,
            content: Content::Stream(stream),
        }
    }

    pub(crate) fn frames(stream: BoxStream<'static, io::Result<Bytes>>) -> Answer {
        Answer {
            status: StatusCode::OK,
            content: Content::Frames("application/octet-stream", stream),
        }
    }

    /// Lines of JSON, made as the client reads them.
    pub(crate) fn line_stream(stream: BoxStream<'static, io::Result<Bytes>>) -> Answer {
        Answer {
            status: StatusCode::OK,
            content: Content::Frames(LINES, stream),
        }
    }

    /// Bytes as they are.
    pub(crate) fn bytes(content_type: &'static str, bytes: Bytes) -> Answer {
        Answer {
            status: StatusCode::OK,
            content: Content::Bytes(content_type, bytes),
        }
    }

    pub(crate) fn text(content_type: &'static str, text: String) -> Answer {
        Answer {
            status: StatusCode::OK,
            content: Content::Text(content_type, text),
        }
    }

    /// The answer as it is sent. A long answer reserves memory until it is sent. If none is free it
    /// becomes a 429: an answer that waited for memory would hold its bytes meanwhile.
    pub(crate) fn into_response(self, format: &AnswerFormat, buffers: &Buffers) -> Response {
        let status = self.status;
        match self.into_body(format, buffers) {
            Ok((content_type, body)) => response(status, content_type, body),
            Err(failure) => response(
                failure.status,
                JSON,
                Body::from(failure.to_json().to_string()),
            ),
        }
    }

    fn into_body(self, format: &AnswerFormat, buffers: &Buffers) -> Outcome<(&'static str, Body)> {
        let (parts, held) = match self.content {
            Content::Json(json, mut held) => {
                if let Some(held) = held.as_mut().filter(|_| !format.filter.is_all()) {
                    held.resize(json.len().saturating_mul(FILTER_COPIES))?;
                }
                (
                    vec![Bytes::from(filtered(json, &format.filter, "")?.0)],
                    held,
                )
            }
            Content::Lines(lines, mut held) => {
                held.resize(lines.capacity())?;
                let held = Some(held);
                let parts = VecDeque::from([Bytes::from(lines)]);
                return Ok((LINES, Body::new(PartsBody { parts, _held: held })));
            }
            Content::Parts(parts, held) => (parts, held),
            Content::Stream(stream) => return Ok((JSON, streamed(stream, format.pretty))),
            Content::Frames(content_type, stream) => {
                return Ok((content_type, Body::from_stream(stream)));
            }
            Content::Text(content_type, text) => return Ok((content_type, Body::from(text))),
            Content::Bytes(content_type, bytes) => {
                let held = match bytes.len() > SMALL_BYTES {
                    true => Some(buffers.hold_now(bytes.len())?),
                    false => None,
                };
                let parts = VecDeque::from([bytes]);
                return Ok((content_type, Body::new(PartsBody { parts, _held: held })));
            }
        };
        let parts = if format.pretty {
            vec![formatted(&parts)]
        } else {
            parts
        };
        let bytes = parts.iter().map(Bytes::len).sum();
        let held = match held {
            Some(mut held) => {
                held.resize(bytes)?;
                Some(held)
            }
            None if bytes > SMALL_BYTES => Some(buffers.hold_now(bytes)?),
            None => None,
        };
        Ok((
            JSON,
            Body::new(PartsBody {
                parts: parts.into(),
                _held: held,
            }),
        ))
    }
}

/// A failure is answered whole, whatever `filter_path` says: the caller must learn what was wrong.
impl From<Failure> for Answer {
    fn from(failure: Failure) -> Answer {
        let json = failure.to_json().to_string().into();
        Answer {
            status: failure.status,
            content: Content::Parts(vec![json], None),
        }
    }
}

fn response(status: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static("Bearer realm=\"quire\""),
        );
    }
    response
}

/// What `filter_path` shows of JSON that stands at `path` in an answer, "" if it is the whole; and
/// whether that is anything. It holds [`FILTER_COPIES`] of the length.
pub(crate) fn filtered(json: Vec<u8>, filter: &Fields, path: &str) -> Outcome<(Vec<u8>, bool)> {
    let is_list = json.first() == Some(&b'[');
    // Only objects have fields.
    if filter.is_all() || !is_list && json.first() != Some(&b'{') {
        return Ok((json, true));
    }
    // A document is an object: a list is a field of one.
    let read = match is_list {
        true => Document::from_json(&[b"{\"list\":", &json[..], b"}"].concat()),
        false => Document::from_json(&json),
    };
    let document = read.map_err(|error| {
        Failure::illegal_argument(format!(
            "parameter [filter_path] can't be applied to this answer: {error}"
        ))
    })?;
    let mut out = Vec::with_capacity(json.len());
    let whole = ValueRef::Object(document.root());
    let list = if is_list { document.get("list") } else { None };
    let is_shown = filter.write(list.unwrap_or(whole), path, &mut out);
    Ok((out, is_shown))
}

fn formatted(parts: &[Bytes]) -> Bytes {
    let (mut pretty, mut out) = (Pretty::default(), Vec::new());
    for part in parts {
        pretty.push(part, &mut out);
    }
    out.push(b'\n');
    out.into()
}

fn streamed(stream: BoxStream<'static, io::Result<Bytes>>, pretty: bool) -> Body {
    if !pretty {
        return Body::from_stream(stream);
    }
    let mut pretty = Pretty::default();
    Body::from_stream(stream.map(move |piece| {
        piece.map(|piece| {
            let mut out = Vec::with_capacity(piece.len() * 2);
            pretty.push(&piece, &mut out);
            Bytes::from(out)
        })
    }))
}

/// A body of known length, passed piece by piece as the connection can take it. Its memory is
/// released at the end.
struct PartsBody {
    parts: VecDeque<Bytes>,
    _held: Option<Held>,
}

impl http_body::Body for PartsBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let parts = &mut self.get_mut().parts;
        while let Some(part) = parts.front_mut() {
            let piece = part.split_to(part.len().min(PIECE_BYTES));
            if part.is_empty() {
                parts.pop_front();
            }
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.parts.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.parts.iter().map(|part| part.len() as u64).sum())
    }
}

/// Appends a JSON string.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    ValueRef::String(text).write_json(out);
}
