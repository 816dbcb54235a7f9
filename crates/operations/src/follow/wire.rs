//! What a leader sends to a follower: a stream of frames.
//!
//! # Layout (little-endian)
//! ```text
//! frame    | payload bytes n, u32 | kind, u8 | CRC-32C of kind and payload, u32 | payload, n |
//! kind     payload
//! 1 catalog    the leader's catalog, as the file is (sealed text)
//! 2 records    | clock u64 | collection u32 | partition u32 | first position u64 | whole u8
//!              | records u32 | length of each, u32 | bytes of each |
//! 3 heads      | clock u64 | partitions u32
//!              | of each: collection u32, partition u32, last position u64 |
//! 4 start over   why, in words: the log lacks what comes next
//! 5 diverged     why, in words
//! 6 data       bytes of a file
//! 7 end        | bytes of the file u64 | CRC-32C of all of them u32 |
//! ```
//! The clock is the leader's, in microseconds; it never jumps, and begins anywhere.

use bytes::{Buf, Bytes};
use quire_database::{Error, Result};
use quire_model::Position;
use std::io::Read;

const HEADER_BYTES: usize = 4 + 1 + 4;

/// The largest payload: a group of records of the largest size, with their lengths and what comes
/// before them.
const PAYLOAD_BYTES_MAX: u64 = 72 << 20;

/// A message of a leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Its collections.
    Catalog(Bytes),
    /// Records of a partition.
    Records(Records),
    /// How far it has got, by a clock that began anywhere, in microseconds.
    Heads(u64, Vec<Head>),
    /// The follower needs a new copy, and why.
    StartOver(String),
    /// The follower is no copy of this database, and why.
    Diverged(String),
    /// Bytes of a file.
    Data(Bytes),
    /// The file is at its end: how long it is, and its CRC-32C.
    End {
        /// Bytes of the file.
        bytes: u64,
        /// Of all of them.
        crc32c: u32,
    },
}

/// Records of a partition that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    /// When the leader sent them, by its clock.
    pub clock_micros: u64,
    /// The collection's id.
    pub collection: u32,
    /// The partition's number.
    pub partition: u32,
    /// Position of the first.
    pub first: Position,
    /// Readers may see a state that ends with the last.
    pub whole: bool,
    /// One or more.
    pub records: Vec<Bytes>,
}

/// How far a partition of the leader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The collection's id.
    pub collection: u32,
    /// The partition's number.
    pub partition: u32,
    /// The last record that it has accepted.
    pub last: Position,
}

impl Frame {
    /// Appends the frame.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        let kind = match self {
            Frame::Catalog(bytes) => {
                out.extend_from_slice(bytes);
                1
            }
            Frame::Records(records) => {
                records.encode(out);
                2
            }
            Frame::Heads(clock, heads) => {
                out.extend_from_slice(&clock.to_le_bytes());
                out.extend_from_slice(&(heads.len() as u32).to_le_bytes());
                for head in heads {
                    out.extend_from_slice(&head.collection.to_le_bytes());
                    out.extend_from_slice(&head.partition.to_le_bytes());
                    out.extend_from_slice(&head.last.0.to_le_bytes());
                }
                3
            }
            Frame::StartOver(why) => {
                out.extend_from_slice(why.as_bytes());
                4
            }
            Frame::Diverged(why) => {
                out.extend_from_slice(why.as_bytes());
                5
            }
            Frame::Data(bytes) => {
                out.extend_from_slice(bytes);
                6
            }
            Frame::End { bytes, crc32c } => {
                out.extend_from_slice(&bytes.to_le_bytes());
                out.extend_from_slice(&crc32c.to_le_bytes());
                7
            }
        };
        let payload = out.get(start + HEADER_BYTES..).unwrap_or_default();
        debug_assert!(
            payload.len() as u64 <= PAYLOAD_BYTES_MAX,
            "a frame that is sent can be read"
        );
        let (length, crc) = (payload.len() as u32, checksum(kind, payload));
        let header = [&length.to_le_bytes()[..], &[kind], &crc.to_le_bytes()].concat();
        if let Some(place) = out.get_mut(start..start + HEADER_BYTES) {
            place.copy_from_slice(&header);
        }
    }

    /// The next frame; none where the bytes end between two. Holds little more memory than bytes
    /// have come.
    ///
    /// # Errors
    /// [`Error::Leader`] if the bytes are cut or garbled, or can't be read.
    pub fn read(source: &mut dyn Read) -> Result<Option<Frame>> {
        let mut header = [0; HEADER_BYTES];
        let mut filled = 0;
        while let Some(rest) = header.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match source.read(rest) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(garbled("a message is cut short")),
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(&error)),
            }
        }
        let [l0, l1, l2, l3, kind, c0, c1, c2, c3] = header;
        let length = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
        if length > PAYLOAD_BYTES_MAX {
            return Err(garbled("a message is too long"));
        }
        let mut payload = Vec::with_capacity(length.min(2 << 20) as usize);
        let read = source.take(length).read_to_end(&mut payload);
        read.map_err(|error| broken(&error))?;
        if payload.len() as u64 != length {
            return Err(garbled("a message is cut short"));
        }
        if checksum(kind, &payload) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(garbled("the checksum of a message does not match"));
        }
        Frame::decode(kind, payload.into())
            .map(Some)
            .ok_or_else(|| garbled("a message makes no sense"))
    }

    fn decode(kind: u8, mut payload: Bytes) -> Option<Frame> {
        let text = |payload: &Bytes| String::from_utf8(payload.to_vec()).ok();
        Some(match kind {
            1 => Frame::Catalog(payload),
            2 => Frame::Records(Records::decode(payload)?),
            3 => {
                let clock = payload.try_get_u64_le().ok()?;
                let count = payload.try_get_u32_le().ok()?;
                if payload.len() as u64 != u64::from(count) * 16 {
                    return None;
                }
                let mut heads = Vec::new();
                for _ in 0..count {
                    heads.push(Head {
                        collection: payload.try_get_u32_le().ok()?,
                        partition: payload.try_get_u32_le().ok()?,
                        last: Position(payload.try_get_u64_le().ok()?),
                    });
                }
                Frame::Heads(clock, heads)
            }
            4 => Frame::StartOver(text(&payload)?),
            5 => Frame::Diverged(text(&payload)?),
            6 => Frame::Data(payload),
            7 => {
                let bytes = payload.try_get_u64_le().ok()?;
                let crc32c = payload.try_get_u32_le().ok()?;
                payload.is_empty().then_some(Frame::End { bytes, crc32c })?
            }
            _ => return None,
        })
    }
}

impl Records {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.clock_micros.to_le_bytes());
        out.extend_from_slice(&self.collection.to_le_bytes());
        out.extend_from_slice(&self.partition.to_le_bytes());
        out.extend_from_slice(&self.first.0.to_le_bytes());
        out.push(u8::from(self.whole));
        out.extend_from_slice(&(self.records.len() as u32).to_le_bytes());
        for record in &self.records {
            out.extend_from_slice(&(record.len() as u32).to_le_bytes());
        }
        for record in &self.records {
            out.extend_from_slice(record);
        }
    }

    fn decode(mut payload: Bytes) -> Option<Records> {
        let clock_micros = payload.try_get_u64_le().ok()?;
        let collection = payload.try_get_u32_le().ok()?;
        let partition = payload.try_get_u32_le().ok()?;
        let first = Position(payload.try_get_u64_le().ok()?);
        let whole = match payload.try_get_u8().ok()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let count = payload.try_get_u32_le().ok()? as usize;
        let lengths = count
            .checked_mul(4)
            .filter(|bytes| *bytes <= payload.len())?;
        first.0.checked_add(count as u64)?;
        let mut lengths = payload.split_to(lengths);
        let mut records = Vec::with_capacity(count);
        for _ in 0..count {
            let length = lengths.try_get_u32_le().ok()? as usize;
            if length > payload.len() {
                return None;
            }
            records.push(payload.split_to(length));
        }
        (payload.is_empty() && count > 0 && first.0 > 0).then_some(Records {
            clock_micros,
            collection,
            partition,
            first,
            whole,
            records,
        })
    }
}

fn checksum(kind: u8, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&[kind]), payload)
}

fn garbled(what: &str) -> Error {
    Error::Leader(format!("what the leader sends can't be used: {what}"))
}

fn broken(error: &std::io::Error) -> Error {
    Error::Leader(format!("the connection to the leader broke: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<Frame> {
        let records = Records {
            clock_micros: 5,
            collection: 1,
            partition: 2,
            first: Position(7),
            whole: true,
            records: vec![
                Bytes::from_static(b"one"),
                Bytes::new(),
                Bytes::from_static(b"three"),
            ],
        };
        let head = Head {
            collection: 3,
            partition: 4,
            last: Position(1 << 40),
        };
        vec![
            Frame::Catalog(Bytes::from_static(b"{}")),
            Frame::Records(records),
            Frame::Heads(9, vec![head, head]),
            Frame::StartOver("gone".into()),
            Frame::Diverged("another".into()),
            Frame::Data(Bytes::from_static(&[7; 300])),
            Frame::End {
                bytes: 300,
                crc32c: 1,
            },
        ]
    }

    fn read_all(mut bytes: &[u8]) -> Result<Vec<Frame>> {
        let mut frames = Vec::new();
        while let Some(frame) = Frame::read(&mut bytes)? {
            frames.push(frame);
        }
        Ok(frames)
    }

    #[test]
    fn frames_come_back_and_every_cut_and_every_flipped_bit_is_an_error() {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for frame in frames() {
            frame.encode(&mut bytes);
            ends.push(bytes.len());
        }
        assert_eq!(read_all(&bytes).unwrap(), frames());
        for end in 0..bytes.len() {
            assert_eq!(
                read_all(&bytes[..end]).is_ok(),
                ends.contains(&end),
                "cut at {end}"
            );
        }
        for bit in 0..bytes.len() * 8 {
            let mut garbled = bytes.clone();
            garbled[bit / 8] ^= 1 << (bit % 8);
            assert!(read_all(&garbled).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn payloads_under_a_right_checksum_that_make_no_sense_are_errors() {
        for kind in 0..=9 {
            for length in 0..40 {
                for fill in [0, 1, 0xff] {
                    let payload = vec![fill; length];
                    let mut bytes = (length as u32).to_le_bytes().to_vec();
                    bytes.push(kind);
                    bytes.extend_from_slice(&checksum(kind, &payload).to_le_bytes());
                    bytes.extend_from_slice(&payload);
                    // An error or a frame, and never a panic.
                    drop(read_all(&bytes));
                }
            }
        }
    }
}
