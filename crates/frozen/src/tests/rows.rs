//! How rows are packed: by which codec, and that no damage of a block is served.

use super::*;

const WORDS: [&str; 12] = [
    "service",
    "history",
    "leather",
    "one",
    "owner",
    "winter",
    "tyres",
    "no",
    "accidents",
    "garage",
    "kept",
    "warranty",
];

/// A text of words in an order of its own.
fn text(number: usize, words: usize) -> String {
    let word = |place: usize| WORDS[(number * 31 + place * place * 7 + place / 5) % WORDS.len()];
    (0..words)
        .map(|place| format!("{} ", word(place)))
        .collect()
}

/// The file of some payloads, with the default options.
fn file_of(env: &Arc<SimEnv>, payloads: &[String]) -> FrozenFile {
    let machine: Arc<dyn Env> = Arc::<SimEnv>::clone(env);
    env.create_dir_all(Path::new("/d")).unwrap();
    let options = FrozenOptions::default();
    let mut builder = FrozenBuilder::create(machine, Path::new(FILE), &[], options).unwrap();
    for payload in payloads {
        builder.end(payload.as_bytes()).unwrap();
    }
    builder.finish().unwrap();
    open(env, Access::Read).unwrap()
}

fn payload_of(file: &FrozenFile, docid: usize) -> Option<Vec<u8>> {
    let mut found = None;
    let read = file.payload(docid as u32, &mut |row| found = Some(row.to_vec()));
    read.ok().and(found)
}

/// Bytes of the payloads, and of the dictionary.
fn bytes_of(file: &FrozenFile) -> (u64, u64) {
    let rows = file.inspect().unwrap().payload_rows.unwrap();
    (rows.stored_bytes, rows.dictionary_bytes)
}

#[test]
fn payloads_of_the_same_words_take_a_third_and_come_back_whatever_their_length() {
    let mut payloads: Vec<_> = (0..300).map(|number| text(number, 90)).collect();
    // Too long for symbols; and bytes that no other payload has.
    payloads.push(text(7, 9_000));
    payloads.push("\u{ff}\0".repeat(400));
    let file = file_of(&SimEnv::new(1), &payloads);
    for (docid, payload) in payloads.iter().enumerate() {
        assert_eq!(
            payload_of(&file, docid).as_deref(),
            Some(payload.as_bytes())
        );
    }
    file.verify().unwrap();
    let raw: usize = payloads.iter().map(String::len).sum();
    let (stored, dictionary) = bytes_of(&file);
    assert!(stored * 3 < raw as u64, "{stored} of {raw}");
    assert!(
        dictionary > 0 && dictionary <= 255 * 8,
        "symbols take {dictionary}"
    );
}

#[test]
fn payloads_with_long_parts_in_common_are_packed_by_what_they_repeat() {
    // 16 symbols for each part are more than a reference to all of it.
    let common: String = (0..400).map(|n| format!("{:x}", n * 7919)).collect();
    let payload = |number: usize| format!("{number}{common}{number}");
    let payloads: Vec<_> = (0..100).map(payload).collect();
    let file = file_of(&SimEnv::new(1), &payloads);
    for (docid, payload) in payloads.iter().enumerate() {
        assert_eq!(
            payload_of(&file, docid).as_deref(),
            Some(payload.as_bytes())
        );
    }
    let raw: usize = payloads.iter().map(String::len).sum();
    assert!(bytes_of(&file).0 * 10 < raw as u64);
}

#[test]
fn a_damaged_block_of_symbols_is_never_served() {
    let env = SimEnv::new(1);
    let payloads: Vec<_> = (0..200).map(|number| text(number, 90)).collect();
    let whole = file_of(&env, &payloads);
    let end = whole.sections.trailer().table_offset;
    for bit in (0..end * 8).step_by(997) {
        env.flip_bit(Path::new(FILE), bit).unwrap();
        let file = open(&env, Access::Read);
        let mut missing = 0;
        for (docid, payload) in payloads.iter().enumerate() {
            let found = file.as_ref().ok().and_then(|file| payload_of(file, docid));
            missing += usize::from(found.is_none());
            assert!(found.is_none_or(|found| found == payload.as_bytes()));
        }
        let verified = file.and_then(|file| file.verify());
        assert!(verified.is_err() && missing <= payloads.len(), "bit {bit}");
        env.flip_bit(Path::new(FILE), bit).unwrap();
    }
}
