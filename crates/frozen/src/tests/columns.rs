//! Documents that are not stored, because the columns give them back byte for byte.

use super::*;
use quire_model::ValueRef;

/// A file of some documents, all whose fields are frozen for both uses.
fn file(documents: &[Document], stored_first: u32, run: usize) -> FrozenFile {
    let env = SimEnv::new(1);
    let machine: Arc<dyn Env> = Arc::<SimEnv>::clone(&env);
    env.create_dir_all(Path::new("/d")).unwrap();
    let mut paths = std::collections::BTreeSet::new();
    for document in documents {
        FieldPath::each_in(document.root(), &mut |path| {
            paths.insert(path.to_string());
        });
    }
    let fields: Vec<_> = paths.iter().map(|path| FieldSpec::full(path)).collect();
    let options = options(Codec::Lz4, 300);
    let mut builder = FrozenBuilder::create(machine, Path::new(FILE), &fields, options).unwrap();
    builder.stored_first = stored_first;
    for (place, document) in documents.iter().enumerate() {
        builder.add(document, b"").unwrap();
        if (place + 1) % run == 0 {
            builder.end_run().unwrap();
        }
    }
    builder.finish().unwrap();
    open(&env, Access::Read).unwrap()
}

fn parsed(json: &str) -> Document {
    Document::from_json(json.as_bytes()).unwrap()
}

/// How many of these documents are left to the columns. All come back.
fn in_columns(documents: &[Document]) -> u64 {
    let file = file(documents, 0, 2);
    for (docid, document) in (0..).zip(documents) {
        assert_eq!(file.document(docid).unwrap().as_ref(), Some(document));
    }
    assert_eq!(file.document(documents.len() as u32).unwrap(), None);
    file.inspect().unwrap().documents_in_columns
}

/// A scalar as it may be written: few of each kind, so that values are shared.
fn spelled() -> impl Strategy<Value = String> {
    prop_oneof![
        scalar(),
        (0u32..4, 0u32..300).prop_map(|(whole, part)| format!("{whole}.{part}")),
        Just("-0".to_string()),
        Just("-0.0".to_string()),
        Just("1e3".to_string()),
        Just("2.5e-7".to_string()),
        Just("0.00000025".to_string()),
        Just("123456789012345678901.5".to_string()),
        Just("9007199254740993".to_string()),
        Just("-9223372036854775808".to_string()),
        "[a-bü]{0,3}".prop_map(|text| format!("\"{text}\\u0000\"")),
        (60usize..70).prop_map(|length| format!("{:?}", "x".repeat(length))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn every_document_comes_back_byte_for_byte(
        rows in vec(
            (vec((prop_oneof![Just("a"), Just("b"), Just("a.b"), Just("c"), Just("")], spelled()),
                0..5), 0u8..10),
            1..60,
        ),
        run in 1usize..40,
        stored_first in 0u32..8,
    ) {
        let documents: Vec<_> = rows.iter().map(|(values, nested)| {
            let mut seen = std::collections::BTreeSet::new();
            let values = values.iter().filter(|(name, _)| seen.insert(*name));
            let mut fields: Vec<_> =
                values.map(|(name, value)| format!("{name:?}:{value}")).collect();
            if *nested == 0 {
                fields.push(r#""d":{"e":[1,"x"]},"list":[3,3,4]"#.to_string());
            }
            parsed(&format!("{{{}}}", fields.join(",")))
        }).collect();
        let file = file(&documents, stored_first, run);
        file.verify().unwrap();
        for (docid, document) in (0..).zip(&documents) {
            prop_assert_eq!(file.document(docid).unwrap(), Some(document.clone()));
        }
    }
}

#[test]
fn short_scalars_are_left_to_the_columns_and_nothing_else_is() {
    let exact = [
        r#"{"a":1,"b":"x","c":null,"d":true}"#,
        r#"{"b":"x","a":1}"#,
        r#"{"a":-0.5,"b":18446744073709551615,"s.t":""}"#,
        "{}",
    ];
    let exact: Vec<_> = exact.map(parsed).to_vec();
    assert_eq!(in_columns(&exact), 4);
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(65));
    for stored in [
        r#"{"a":1.50}"#,
        r#"{"a":1.0}"#,
        r#"{"a":-0}"#,
        r#"{"a":1e-3}"#,
        r#"{"a":[1]}"#,
        r#"{"a":{"b":1}}"#,
        // At no path.
        r#"{"":1}"#,
        long.as_str(),
    ] {
        let mut documents = exact.clone();
        documents.push(parsed(stored));
        assert_eq!(in_columns(&documents), 4, "{stored}");
    }
}

#[test]
fn a_value_that_was_set_beside_the_document_is_not_one_of_it() {
    let env = SimEnv::new(1);
    let machine: Arc<dyn Env> = Arc::<SimEnv>::clone(&env);
    let (path, fields) = (
        Path::new(FILE),
        [FieldSpec::full("a"), FieldSpec::full("_id")],
    );
    env.create_dir_all(Path::new("/d")).unwrap();
    let options = FrozenOptions::default();
    let mut builder = FrozenBuilder::create(machine, path, &fields, options).unwrap();
    builder.stored_first = 0;
    let document = parsed(r#"{"a":2}"#);
    builder.set(0, ValueRef::Int(1)).unwrap();
    builder.add(&document, b"").unwrap();
    builder.set(1, ValueRef::String("key")).unwrap();
    builder.add(&document, b"").unwrap();
    builder
        .add_seen_as(&document, &parsed(r#"{"a":3}"#), b"")
        .unwrap();
    builder.set(0, ValueRef::Int(4)).unwrap();
    builder.end(b"").unwrap();
    builder.finish().unwrap();
    let file = open(&env, Access::Map).unwrap();
    for docid in 0..3 {
        assert_eq!(file.document(docid).unwrap().as_ref(), Some(&document));
    }
    assert_eq!(
        file.document(3).unwrap(),
        None,
        "it has values, and no document"
    );
    assert_eq!(file.inspect().unwrap().documents_in_columns, 1);
}

#[test]
fn documents_of_too_many_shapes_are_stored() {
    let document = |number: u32| {
        let names = (0..9).filter(|bit| number >> bit & 1 == 1);
        let fields: Vec<_> = names.map(|bit| format!(r#""f{bit}":{number}"#)).collect();
        parsed(&format!("{{{}}}", fields.join(",")))
    };
    let documents: Vec<_> = (0..300).chain([7, 299]).map(document).collect();
    assert_eq!(in_columns(&documents), 256 + 1);
}

#[test]
fn the_first_documents_are_stored() {
    let documents: Vec<_> = (0..5000)
        .map(|id| parsed(&format!(r#"{{"id":{id}}}"#)))
        .collect();
    let file = file(&documents, crate::builder::STORED_FIRST, 5000);
    assert_eq!(file.inspect().unwrap().documents_in_columns, 5000 - 4096);
    for docid in [0, 4095, 4096, 4999] {
        assert_eq!(
            file.document(docid).unwrap().as_ref(),
            Some(&documents[docid as usize])
        );
    }
}

/// A file that an earlier version wrote, whole.
fn written_before(bytes: &[u8]) -> FrozenFile {
    let env = SimEnv::new(1);
    env.create_dir_all(Path::new("/d")).unwrap();
    let mut file = crate::spool::create_anew(&*env, Path::new(FILE)).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
    let file = open(&env, Access::Read).unwrap();
    file.verify().unwrap();
    file
}

#[test]
fn a_file_of_format_2_is_read() {
    let file = written_before(include_bytes!("format-2.quire"));
    let documents = [
        r#"{"a":1,"s":"x","n":null}"#,
        r#"{"a":2.50,"s":"y","tags":["p","q"]}"#,
        r#"{"a":18446744073709551615,"o":{"x":true}}"#,
    ];
    for (docid, json) in (0..).zip(documents) {
        assert_eq!(file.document(docid).unwrap(), Some(parsed(json)));
    }
    assert_eq!(
        (
            file.documents(),
            file.inspect().unwrap().documents_in_columns
        ),
        (4, 0)
    );
    let leaf = Leaf {
        path: FieldPath::new("tags"),
        test: Test::Eq("q".into()),
    };
    let found = file.matches(&leaf, Found::default()).unwrap();
    assert!(found.iter().eq([1]));
}

#[test]
fn a_file_of_format_3_is_read() {
    let file = written_before(include_bytes!("format-3.quire"));
    let text = |number: u32| {
        let mark = number % 3;
        let part = format!("a car of mark m{mark}, kept in a garage, no accidents; ");
        let text = format!("{}{number}", part.repeat(8));
        let price = number * 5;
        format!(r#"{{"_id":"k{number:02}","mark":"m{mark}","price":{price},"text":"{text}"}}"#)
    };
    let mut numbers: Vec<u32> = Vec::new();
    for docid in 0..file.documents() {
        let document = file.document(docid).unwrap().unwrap();
        let json = document.to_json();
        let number = (0..40).find(|number| text(*number) == json);
        numbers.extend(number);
    }
    let leaf = Leaf {
        path: FieldPath::new("mark"),
        test: Test::Eq("m1".into()),
    };
    // The documents of a value are found by the codes of all.
    let found = file.matches(&leaf, Found::default()).unwrap();
    let expected = (0..).zip(&numbers).filter(|(_, number)| *number % 3 == 1);
    assert!(found.iter().eq(expected.map(|(docid, _)| docid)));
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..40), "each document came once");
}
