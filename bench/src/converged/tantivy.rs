//! Tantivy, a library for search in Rust.

use super::ids::{VALUES, name, report, timed, updated, value};
use super::quire::process_cpu_nanos;
use super::{Report, Setup};
use crate::Result;
use crate::measure::disk_bytes;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use tantivy::schema::{FAST, Field, INDEXED, IndexRecordOption, STRING, Schema};
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocSet, Index, IndexWriter, TantivyDocument, Term};

/// Memory of the writer in bytes.
const WRITER_BYTES: usize = 256 << 20;

fn create(setup: &Setup, schema: Schema) -> Result<(Index, PathBuf)> {
    let dir = setup.engine_dir().join("tantivy");
    std::fs::create_dir_all(&dir)?;
    Ok((Index::create_in_dir(&dir, schema)?, dir))
}

/// See [`ids`](super::ids).
pub(super) fn ids(setup: &Setup) -> Result<Report> {
    let mut schema = Schema::builder();
    let number_field = schema.add_u64_field("n", INDEXED | FAST);
    // With a column, as Quire has one.
    let value_field = schema.add_text_field("v", STRING | FAST);
    let (index, _) = create(setup, schema.build())?;
    let begun = process_cpu_nanos();
    let mut writer: IndexWriter = index.writer_with_num_threads(1, WRITER_BYTES)?;
    let add = |writer: &IndexWriter, number, is_updated| -> Result<()> {
        let mut document = TantivyDocument::new();
        document.add_u64(number_field, number);
        document.add_text(value_field, value(number, setup.count, is_updated));
        writer.add_document(document)?;
        Ok(())
    };
    for number in 0..setup.count {
        add(&writer, number, false)?;
    }
    writer.commit()?;
    let mut report = Report::default();
    report.add(
        "loaded",
        "CPU s",
        (process_cpu_nanos() - begun) as f64 / 1e9,
    );
    for number in updated(setup.count) {
        writer.delete_term(Term::from_field_u64(number_field, number));
        add(&writer, number, true)?;
    }
    writer.commit()?;
    writer.wait_merging_threads()?;
    let searcher = index.reader()?.searcher();
    let usage = searcher.space_usage()?;
    let fields = usage.segments().iter().flat_map(|segment| {
        let parts = [
            segment.termdict(),
            segment.postings(),
            segment.fast_fields(),
        ];
        let of_value = parts.into_iter().flat_map(|part| part.fields());
        let of_value = of_value.filter(|usage| usage.field_name() == "v");
        of_value
            .map(|usage| usage.total().get_bytes())
            .collect::<Vec<_>>()
    });
    report.add("index", "MB", fields.sum::<u64>() as f64 / 1e6);
    for (value, _) in VALUES {
        let term = Term::from_field_text(value_field, value);
        let mut ids = [0; COLLECT_BLOCK_BUFFER_LEN];
        let mut count = 0;
        let mut execute = || -> Result<u64> {
            let mut sum = 0;
            count = 0;
            for segment in searcher.segment_readers() {
                let inverted = segment.inverted_index(value_field)?;
                let Some(mut docs) = inverted.read_postings(&term, IndexRecordOption::Basic)?
                else {
                    continue;
                };
                let alive = segment.alive_bitset();
                loop {
                    let filled = docs.fill_buffer(&mut ids);
                    let ids = ids[..filled].iter();
                    let ids = ids.filter(|id| alive.is_none_or(|alive| alive.is_alive(**id)));
                    ids.for_each(|id| {
                        sum += u64::from(*id);
                        count += 1;
                    });
                    if filled < COLLECT_BLOCK_BUFFER_LEN {
                        break;
                    }
                }
            }
            Ok(sum)
        };
        let times = timed(&mut execute)?;
        report.answer(format!("count of {value}"), vec![count]);
        self::report(&mut report, &name(value, setup.count), times);
    }
    Ok(report)
}

/// Loads a flat file.
pub(super) fn ingest(setup: &Setup) -> Result<Report> {
    let mut lines = BufReader::with_capacity(1 << 20, File::open(setup.file("flat.tsv"))?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let mut schema = Schema::builder();
    let id = schema.add_text_field("_id", STRING);
    let fields: Vec<(Field, Field)> = line
        .trim_end()
        .split('\t')
        .map(|field| {
            let (name, kind) = field.rsplit_once(':').unwrap_or((field, "s"));
            let plain = match kind {
                "i" => schema.add_i64_field(name, INDEXED | FAST),
                "f" => schema.add_f64_field(name, INDEXED | FAST),
                _ => schema.add_text_field(name, STRING | FAST),
            };
            let hash = schema.add_text_field(&format!("{name}, hashed"), STRING);
            (plain, hash)
        })
        .collect();
    let (index, dir) = create(setup, schema.build())?;
    let begun = crate::measure::Watch::start()?;
    let mut writer: IndexWriter = index.writer_with_num_threads(1, WRITER_BYTES)?;
    let mut count = 0;
    loop {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            break;
        }
        let (key, values) = parse_flat(line.trim_end_matches('\n'));
        let mut document = TantivyDocument::new();
        document.add_text(id, key);
        for (number, kind, text) in values {
            let (plain, hash) = fields[number];
            match kind {
                'i' => document.add_i64(plain, text.parse()?),
                'f' => document.add_f64(plain, text.parse()?),
                'h' => document.add_text(hash, text),
                _ => document.add_text(plain, text),
            }
        }
        writer.add_document(document)?;
        count += 1;
    }
    writer.commit()?;
    writer.wait_merging_threads()?;
    let mut report = Report::default();
    super::ingest::report_rate(&mut report, count, begun.stop()?);
    report.add("index", "MB", disk_bytes(&dir)? as f64 / 1e6);
    Ok(report)
}

/// A line of a [flat file](super::documents): the key; number, letter and text of each value.
fn parse_flat(line: &str) -> (&str, impl Iterator<Item = (usize, char, &str)>) {
    let mut parts = line.split('\t');
    let key = parts.next().unwrap_or_default();
    let values = parts.filter_map(|part| {
        let at = part.find(|c: char| !c.is_ascii_digit())?;
        let kind = part[at..].chars().next()?;
        Some((part[..at].parse().ok()?, kind, &part[at + 1..]))
    });
    (key, values)
}
