//! Many rows at a time, and rows that are larger than documents may be.

use super::*;
use crate::WideWithin;

/// Many rows are what gets of each give, of all columns and of some.
pub(super) fn agree(view: &WideView) -> Result<()> {
    let keys = ["z", "absent", "x", "y", "x"].map(key);
    let keys: Vec<&Key> = keys.iter().collect();
    for columns in [None, Some(&["links", "hot", "_rest"][..]), Some(&[][..])] {
        let many = view.get_many(&keys, "_id", columns, usize::MAX)?;
        assert_eq!(many.len(), keys.len());
        for (key, row) in keys.iter().zip(many) {
            let one = view.get(key, "_id", columns)?;
            let one = one.map(|row| (row.version, sorted(&row.document.to_json())));
            let row = match row? {
                WideWithin::Absent => None,
                WideWithin::Found(row) => Some((row.version, sorted(&row.document.to_json()))),
                WideWithin::Longer(bytes) => panic!("{key} is longer: {bytes}"),
            };
            assert_eq!(row, one, "{key}, {columns:?}");
        }
    }
    Ok(())
}

fn write(partition: &WidePartition, name: &str, change: Change) {
    let write = RowWrite::upsert(key(name)).with(change);
    partition
        .write(&schema(), &write, Triggers::none(), Durability::None)
        .unwrap();
}

#[test]
fn rows_that_do_not_fit_together_are_left_out() {
    let partition = open(&SimEnv::new(1)).unwrap();
    for name in NAMES {
        let cold = Cell::String(name.repeat(1000));
        write(&partition, name, Change::set("cold", cold));
    }
    partition.flush().unwrap();
    let view = partition.view(&schema()).unwrap();
    let keys = NAMES.map(key);
    let keys: Vec<&Key> = keys.iter().collect();
    let found = |bytes_max| {
        let many = view.get_many(&keys, "_id", None, bytes_max).unwrap();
        let found = |row: Result<WideWithin>| match row.unwrap() {
            WideWithin::Found(row) => row.document.to_json().len() > 1000,
            WideWithin::Longer(bytes) => bytes < 1000,
            WideWithin::Absent => panic!("each is there"),
        };
        many.into_iter().map(found).filter(|found| *found).count()
    };
    assert_eq!([100_000, 3000, 1500, 100].map(found), [3, 2, 1, 0]);
    let unknown = view.get_many(&keys, "_id", Some(&["absent"]), 100_000);
    assert_eq!(unknown.unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_row_that_is_too_large_is_named_and_does_not_keep_others_from_being_read() {
    let partition = open(&SimEnv::new(1)).unwrap();
    for name in NAMES {
        write(&partition, name, Change::set("hot", Cell::Int(1)));
    }
    for part in 0..3 {
        let member = Cell::String("m".repeat(6 << 20));
        let change = Change::set("links", member).of_member(part.to_string());
        write(&partition, "y", change);
        partition.flush().unwrap();
    }
    let view = partition.view(&schema()).unwrap();
    let refused = |error: crate::Error| {
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        let error = error.to_string();
        assert!(error.contains("document y"), "{error}");
        assert!(error.contains("name the columns"), "{error}");
    };
    refused(view.get(&key("y"), "_id", None).unwrap_err());
    let mut keys = Vec::new();
    for row in view.rows("_id", None).unwrap() {
        match row {
            Ok((_, row)) => keys.push(row.key.to_string()),
            Err(error) => refused(error),
        }
    }
    assert_eq!(keys, ["x", "z"]);
    let rows = view.rows("_id", Some(&["hot"])).unwrap();
    let rows: Vec<_> = rows.map(Result::unwrap).collect();
    assert_eq!(rows.len(), 3);
    let many = [&key("x"), &key("y"), &key("z")];
    let many = view.get_many(&many, "_id", None, usize::MAX).unwrap();
    let [Ok(_), Err(error), Ok(_)] = <[_; 3]>::try_from(many).unwrap() else {
        panic!("one alone is too large");
    };
    refused(error);
}
