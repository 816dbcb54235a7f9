//! Whatever happens to a file, it answers rightly or says that it is damaged.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn sample() -> (Vec<Document>, Vec<Leaf>) {
    let json = |place: u32| match place % 3 {
        0 => format!(
            r#"{{"a":{},"tags":["x","y"],"o":{{"x":null}},"id":{place}}}"#,
            place % 2
        ),
        1 => format!(r#"{{"a":1.5,"f":"{place}","s":"{place}","id":{place}}}"#),
        // The columns give it back.
        _ if place.is_multiple_of(2) => format!(r#"{{"s":"of columns","id":{place},"a":2}}"#),
        _ => r#"{"f":true,"s":[1,2]}"#.to_string(),
    };
    let documents = (0..24).map(|place| Document::from_json(json(place).as_bytes()).unwrap());
    let leaf = |path: &str, test: Test| Leaf {
        path: FieldPath::new(path),
        test,
    };
    let leaves = vec![
        leaf("a", Test::Eq(1.into())),
        leaf("a", Test::Exists),
        leaf("tags", Test::In(vec!["x".into(), "z".into()])),
        leaf("f", Test::Eq("7".into())),
        leaf(
            "id",
            Test::Range(TermRange {
                lower: Bound::Included(Value::from(3).term().into()),
                upper: Bound::Unbounded,
            }),
        ),
        leaf("o.x", Test::Exists),
    ];
    (documents.collect(), leaves)
}

/// Opens the file and compares it with the model: an error of a damaged file is right, a wrong
/// answer or another panic is not.
fn right_or_damaged(
    env: &SimEnv,
    access: Access,
    model: &ModelShard,
    leaves: &[Leaf],
    what: &str,
) -> bool {
    let frozen = match open(env, access) {
        Ok(frozen) => frozen,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
            return false;
        }
    };
    let some = (0..24).step_by(4).collect();
    let compared = catch_unwind(AssertUnwindSafe(|| compare(&frozen, model, leaves, &some)));
    let Ok(compared) = compared else {
        panic!("{what}: a wrong answer, or a panic");
    };
    let verified = frozen.verify();
    assert!(
        compared.is_ok() || verified.is_err(),
        "{what}: what an answer finds, verifying finds"
    );
    verified.is_ok()
}

#[test]
fn every_bit_flipped_and_every_cut_is_found_or_does_no_harm() {
    let (documents, leaves) = sample();
    let model: ModelShard = documents.iter().cloned().collect();
    // Of the second file one bit of each byte, which one in turn.
    for (codec, access, step) in [(Codec::Lz4, Access::Read, 1), (Codec::None, Access::Map, 9)] {
        let env = SimEnv::new(1);
        let bytes = freeze(&env, &documents, 10, options(codec, 200)).unwrap();
        assert!(right_or_damaged(&env, access, &model, &leaves, "whole"));
        for bit in (0..bytes * 8).step_by(step) {
            env.flip_bit(Path::new(FILE), bit).unwrap();
            let unharmed = right_or_damaged(&env, access, &model, &leaves, &format!("bit {bit}"));
            assert!(!unharmed, "bit {bit} is under no checksum");
            env.flip_bit(Path::new(FILE), bit).unwrap();
        }
        for length in (0..bytes).rev() {
            env.truncate_file(Path::new(FILE), length).unwrap();
            assert!(open(&env, access).is_err(), "cut to {length}");
        }
    }
}

#[test]
fn a_file_that_is_cut_while_it_is_open_is_an_error_and_what_was_loaded_stays() {
    let (documents, leaves) = sample();
    let env = SimEnv::new(1);
    freeze(&env, &documents, 10, options(Codec::Lz4, 200)).unwrap();
    let frozen = open(&env, Access::Read).unwrap();
    let found = frozen.matches(&leaves[0], Found::default()).unwrap();
    env.truncate_file(Path::new(FILE), 20).unwrap();
    assert_eq!(frozen.matches(&leaves[0], Found::default()).unwrap(), found);
    assert_eq!(
        frozen
            .matches(&leaves[2], Found::default())
            .unwrap_err()
            .kind(),
        quire_query::ErrorKind::Shard
    );
    assert!(frozen.document(3).is_err() && frozen.verify().is_err());
}

#[test]
fn another_version_is_said_to_be_newer_or_older() {
    let (documents, _) = sample();
    let env = SimEnv::new(1);
    let bytes = freeze(&env, &documents, 10, options(Codec::Lz4, 200)).unwrap();
    let mut trailer = env
        .read_all(Path::new(FILE))
        .unwrap()
        .split_off(bytes as usize - 48);
    trailer[32] = 9;
    let crc = crc32c::crc32c(&trailer[..36]).to_le_bytes();
    trailer[36..40].copy_from_slice(&crc);
    env.overwrite(Path::new(FILE), bytes - 48, &trailer)
        .unwrap();
    let error = open(&env, Access::Read).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    let text = error.to_string();
    assert!(
        text.contains("format 9") && text.contains("use a newer one"),
        "{error}"
    );

    trailer[32] = 1;
    let crc = crc32c::crc32c(&trailer[..36]).to_le_bytes();
    trailer[36..40].copy_from_slice(&crc);
    env.overwrite(Path::new(FILE), bytes - 48, &trailer)
        .unwrap();
    let error = open(&env, Access::Read).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    let text = error.to_string();
    assert!(text.contains("anew") && !text.contains("newer"), "{error}");
}

#[test]
fn a_file_of_something_else_is_not_said_to_be_damaged() {
    let env = SimEnv::new(1);
    env.create_dir_all(Path::new(FILE).parent().unwrap())
        .unwrap();
    let text = "mark,price\naudi,12\n".repeat(40);
    for content in ["", "x", text.as_str()] {
        let mut file = crate::spool::create_anew(&*env, Path::new(FILE)).unwrap();
        file.append(content.as_bytes()).unwrap();
        file.sync().unwrap();
        for access in [Access::Read, Access::Map] {
            let error = open(&env, access).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
            assert!(
                error.to_string().contains("not a frozen partition"),
                "{error}"
            );
        }
    }
}

#[test]
fn a_crash_or_a_fault_at_any_step_leaves_the_old_file_or_the_new_one() {
    let (documents, leaves) = sample();
    let (old, new) = documents.split_at(10);
    let model = |documents: &[Document]| -> ModelShard { documents.iter().cloned().collect() };
    let with_old = || {
        let env = SimEnv::new(1);
        freeze(&env, old, 7, options(Codec::Lz4, 200)).unwrap();
        env
    };
    let env = with_old();
    let before = env.operations();
    freeze(&env, new, 7, options(Codec::Lz4, 200)).unwrap();
    for step in before..env.operations() {
        let env = with_old();
        env.crash_at(step);
        let done = freeze(&env, new, 7, options(Codec::Lz4, 200)).is_ok();
        for seed in 0..4 {
            let env = env.after_crash(seed);
            let frozen = open(&env, Access::Read).unwrap();
            frozen.verify().unwrap();
            assert!(
                !done || frozen.documents() == 14,
                "what was finished is durable"
            );
            let now = if frozen.documents() == 10 { old } else { new };
            compare(&frozen, &model(now), &leaves, &DocSet::empty()).unwrap();
            // What the crash left is in nobody's way.
            freeze(&env, new, 7, options(Codec::Lz4, 200)).unwrap();
            assert_eq!(open(&env, Access::Read).unwrap().documents(), 14);
        }
    }
}

#[test]
fn a_bare_name_is_a_file_of_the_working_directory() {
    let env: Arc<dyn Env> = quire_env::OsEnv::new().unwrap();
    let name = format!("bare-{}.quire", std::process::id());
    let path = Path::new(&name);
    let builder = FrozenBuilder::create(Arc::clone(&env), path, &[], FrozenOptions::default());
    let finished = builder.unwrap().finish();
    env.remove(path).unwrap();
    assert!(finished.unwrap() > 0);
}
