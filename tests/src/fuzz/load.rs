//! The inputs of `quire load`: NDJSON and CSV.

use super::{Target, Way};
use quire_pipeline::{CsvOptions, Format, documents_of};

/// A file to load; the first byte says which kind.
pub(super) const LOAD: Target = Target {
    name: "load",
    run: load,
    seeds: || {
        let files = [
            (
                0,
                "{\"_id\":1}\n\n \t\r\n{\"_id\":\"b\",\"x\":[1.50,null]}\r\n[1]\n{\"a\":1",
            ),
            (
                1,
                "id,na\"me,note\n1,Ann,\n\n2,\"O'Neil, Bob\",\"two\nlines \"\"quoted\"\"\"\n3,\
                 \u{e9},x\n",
            ),
            (1, "_id,a\r\n1\r\n2,b,c\r\n4,d"),
        ];
        files
            .map(|(kind, text)| [&[kind], text.as_bytes()].concat())
            .into()
    },
    has_checksums: false,
    bytes_max: 64 << 20,
};

/// Line numbers ascend (rows that end with a lone CR share one), nothing is invented, and every
/// document can be written again as a line.
fn load(input: &[u8]) -> Way {
    let Some((kind, input)) = input.split_first() else {
        return Way(0);
    };
    let is_csv = kind % 2 == 1;
    let format = match is_csv {
        true => Format::Csv(CsvOptions::default()),
        false => Format::Ndjson,
    };
    let read = documents_of(format, input);
    let mut bad = Way(0);
    if let Ok(documents) = &read {
        let lines = input.iter().filter(|byte| b"\r\n".contains(byte)).count() as u64 + 1;
        assert!(documents.is_sorted_by_key(|(line, _)| line));
        assert!(documents.iter().all(|(line, _)| (1..=lines).contains(line)));
        for (_, document) in documents {
            match document {
                Ok(document) => {
                    let line = document.to_json();
                    let again = documents_of(Format::Ndjson, line.as_bytes()).unwrap();
                    assert_eq!(again, [(1, Ok(document.clone()))]);
                }
                Err(reason) => bad = Way::of(reason),
            }
        }
    }
    Way::of_result(&read.map(|documents| documents.len() as u64)).and(bad)
}
