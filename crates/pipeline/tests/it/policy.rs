//! What is done about bad documents, and where a pipeline says that it is.

use quire_pipeline::{Error, Event, Format, Input, OnBad, Options, Summary, load};
use quiredb::{CollectionSettings, Database, SimEnv};

/// Loads `text` in batches of two documents. Returns the lines that were skipped, with their
/// bytes, and the count of documents in the collection.
fn run(text: &'static str, on_bad: OnBad) -> (Summary, Vec<(u64, u64)>, u64) {
    let env = SimEnv::new(1);
    let database = Database::builder("/db").env(env.clone()).open().unwrap();
    let collection = database
        .create_collection("c", CollectionSettings::default())
        .unwrap();
    let input = Input::new("test", Format::Ndjson, || Ok(Box::new(text.as_bytes())));
    let options = Options {
        on_bad,
        batch_documents: 2,
        ..Options::default()
    };
    let mut skipped = Vec::new();
    let summary = load(&collection, &*env, vec![input], &options, &mut |event| {
        if let Event::Skipped(bad) = event {
            skipped.push((bad.line, bad.byte));
        }
        Ok(())
    });
    (summary, skipped, collection.count().unwrap())
}

const TEXT: &str = "{\"_id\":1}\n{\"_id\":2}\n\n{\"_id\":3}\nbad\n{\"_id\":4}\nbad\n{\"_id\":5}\n";

#[test]
fn a_bad_document_stops_the_pipeline_behind_the_good_ones_before_it() {
    let (summary, skipped, count) = run(TEXT, OnBad::Stop);
    let progress = summary.progress;
    assert!(matches!(&summary.stopped, Some(Error::Bad(bad)) if (bad.line, bad.byte) == (5, 31)));
    assert_eq!((progress.documents, count, skipped), (3, 3, vec![]));
    // The third document is in the batch of the bad one, and is read again by a run that resumes.
    assert_eq!(
        (progress.position.documents, progress.position.byte),
        (2, 20)
    );
    assert_eq!(progress.bytes, 31);
}

#[test]
fn skipped_documents_are_reported_with_line_and_byte() {
    let (summary, skipped, count) = run(TEXT, OnBad::Skip { max: 2 });
    assert!(summary.stopped.is_none());
    assert_eq!(skipped, [(5, 31), (7, 45)]);
    assert_eq!((summary.progress.documents, summary.progress.bad), (5, 2));
    assert_eq!((count, summary.progress.position.documents), (5, 7));
    assert_eq!(summary.progress.position.byte, TEXT.len() as u64);
}

#[test]
fn one_bad_document_more_than_allowed_stops_the_pipeline() {
    let (summary, skipped, count) = run(TEXT, OnBad::Skip { max: 1 });
    let Some(Error::TooManyBad { max: 1, last }) = &summary.stopped else {
        panic!("{summary:?}");
    };
    assert_eq!((last.line, skipped), (7, vec![(5, 31)]));
    assert_eq!((summary.progress.bad, count), (1, 4));
    assert!(summary.progress.position.documents < 6);
}

#[test]
fn input_that_is_compressed_or_fails_is_named() {
    let (summary, ..) = run("\u{1f}\u{8b}", OnBad::Stop);
    assert!(
        matches!(summary.stopped, Some(Error::Bad(_))),
        "U+008B is two bytes"
    );
    let env = SimEnv::new(1);
    let database = Database::builder("/db").env(env.clone()).open().unwrap();
    let collection = database
        .create_collection("c", CollectionSettings::default())
        .unwrap();
    let good = Input::new("good", Format::Ndjson, || Ok(Box::new(&b"{\"_id\":1}"[..])));
    let gzip = Input::new("packed", Format::Ndjson, || {
        Ok(Box::new(&b"\x1f\x8b\x08"[..]))
    });
    let summary = load(
        &collection,
        &*env,
        vec![good, gzip],
        &Options::default(),
        &mut |_| Ok(()),
    );
    assert!(
        matches!(&summary.stopped, Some(Error::Input { name, .. }) if &**name == "packed"),
        "{summary:?}"
    );
    assert_eq!(summary.progress.documents, 1);
}
