//! The input of the memcached port, to a session in process.

use super::http::database;
use super::{Target, Way};
use quire_server::{MemcachedOptions, ServerOptions, memcached};
use std::collections::BTreeSet;
use std::io::{self, Read};

/// Requests; the first byte says what a value is, and how the bytes are cut.
pub(super) const MEMCACHED: Target = Target {
    name: "memcached",
    run,
    seeds: || {
        let inputs = [
            "set a 5 0 3\r\nabc\r\ngets a 7\r\nadd a 0 0 1 noreply\r\nx\r\ncas a 0 0 1 2\r\ny\r\n\
             append a 0 0 1\r\nz\r\n",
            "set n 0 0 2\r\n10\r\nincr n 5\r\ndecr n 100\r\ntouch n 0\r\ngat 0 n\r\ndelete n\r\n\
             touch 7 -1\r\nget 7\r\n",
            "ms a 2 c F7 k Oxyz\r\nab\r\nmg a v f s t k c\r\nms YQ== 1 b MA q\r\nx\r\nma a D2 MD \
             v\r\nmd a q\r\nmn\r\n",
            "set docs:9 0 0 7\r\n{\"a\":1}\r\nget docs:9 docs:1\r\nreplace docs:1 0 0 2\r\n{}\r\n\
             mg docs:7 v c\r\nincr docs:7 1\r\n",
            "stats\r\nversion\r\nverbosity 1\r\nflush_all noreply\r\nset k 0 60 3\r\nabc\r\nset k \
             0 0 -1\r\nquit\r\n",
        ];
        let cases = inputs
            .iter()
            .flat_map(|input| [(0, input), (1, input), (14, input)]);
        cases
            .map(|(first, input)| [&[first], input.as_bytes()].concat())
            .collect()
    },
    has_checksums: false,
    bytes_max: 64 << 20,
};

/// Returns this number of bytes at a time.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.1.min(buffer.len()).min(self.0.len());
        let (piece, rest) = self.0.split_at(bytes);
        buffer[..bytes].copy_from_slice(piece);
        self.0 = rest;
        Ok(bytes)
    }
}

/// The answers are lines, never an internal error, and the same for any split of the input.
fn run(input: &[u8]) -> Way {
    let Some((first, requests)) = input.split_first() else {
        return Way(0);
    };
    let options = ServerOptions {
        memcached: Some(MemcachedOptions {
            collection: (first % 2 == 0).then(|| "docs".to_owned()),
            field: (first % 2 == 0).then(|| "a".to_owned()),
            ..MemcachedOptions::default()
        }),
        ..ServerOptions::default()
    };
    let answers = |piece_bytes| {
        let mut answers = Vec::new();
        let reader = Pieces(requests, piece_bytes);
        memcached(database(), options.clone(), reader, &mut answers).unwrap();
        answers
    };
    let whole = answers(usize::MAX);
    assert!(whole.is_empty() || whole.ends_with(b"\r\n"));
    let text = String::from_utf8_lossy(&whole);
    for line in text.lines().filter(|line| line.starts_with("SERVER_ERROR")) {
        assert!(line.ends_with("object too large for cache"), "{line}");
    }
    // Versions depend on which requests came together, and so does the output of `stats`.
    let cut = answers(usize::from(first / 2 % 16) + 1);
    if !text.contains("STAT ") {
        let without_digits = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
        let cut = String::from_utf8_lossy(&cut);
        assert_eq!(without_digits(&cut), without_digits(&text));
    }
    // The kinds of answers, in any order.
    let kinds: BTreeSet<&str> = text.lines().filter(|line| is_known(line)).collect();
    Way::of(&kinds.into_iter().collect::<String>())
}

/// Whether a line is one of few that are always the same.
fn is_known(line: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    line.starts_with("CLIENT_ERROR") || line.bytes().all(is_word)
}
