use super::{from_document, to_document};
use crate::ErrorKind;
use quire_model::Document;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Point,
    Circle(f64),
    Line(i8, i8),
    Box { width: u64, height: Option<u64> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Everything {
    text: String,
    letter: char,
    yes: bool,
    least: i64,
    most: u64,
    wide: i128,
    short: f32,
    long: f64,
    nothing: Option<u8>,
    something: Option<u8>,
    unit: (),
    pair: (u8, String),
    bytes: Vec<u8>,
    shapes: Vec<Shape>,
    by_number: BTreeMap<i32, String>,
    nested: BTreeMap<String, Vec<Option<bool>>>,
}

fn everything() -> Everything {
    Everything {
        text: "tab\t, quote \", and é".into(),
        letter: 'ß',
        yes: true,
        least: i64::MIN,
        most: u64::MAX,
        wide: i128::from(u64::MAX),
        short: 0.1,
        long: 1e300,
        nothing: None,
        something: Some(7),
        unit: (),
        pair: (1, "two".into()),
        bytes: vec![0, 255],
        shapes: vec![
            Shape::Point,
            Shape::Circle(2.5),
            Shape::Line(-1, 1),
            Shape::Box {
                width: 3,
                height: None,
            },
        ],
        by_number: BTreeMap::from([(-5, "five".into()), (6, String::new())]),
        nested: BTreeMap::from([("a.b".into(), vec![None, Some(false)])]),
    }
}

#[test]
fn values_come_back_and_documents_are_those_of_json() {
    let document = to_document(&everything()).unwrap();
    assert_eq!(
        from_document::<Everything>(&document).unwrap(),
        everything()
    );
    let json = document.to_json();
    let start = r#"{"text":"tab\t, quote \", and é","letter":"ß","yes":true,"#;
    assert!(json.starts_with(start), "{json}");
    let shapes =
        r#""shapes":["Point",{"Circle":2.5},{"Line":[-1,1]},{"Box":{"width":3,"height":null}}]"#;
    assert!(json.contains(shapes), "{json}");
    assert_eq!(
        serde_json::from_str::<Everything>(&json).unwrap(),
        everything()
    );
}

#[test]
fn text_is_borrowed_from_the_document() {
    #[derive(Deserialize)]
    struct Title<'a> {
        title: &'a str,
    }
    let document = Document::from_json(br#"{"title":"Emma","year":1815}"#).unwrap();
    assert_eq!(from_document::<Title<'_>>(&document).unwrap().title, "Emma");
}

#[test]
fn what_is_wrong_with_a_document_is_said_with_its_field() {
    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "it is never made")]
    struct Author {
        born: u16,
        shape: Option<Shape>,
    }
    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "it is never made")]
    struct Book {
        title: String,
        authors: Vec<Author>,
        pair: Option<(u8, u8)>,
    }
    for (json, path, what) in [
        (r#"{"title":7,"authors":[]}"#, "title", "expected a string"),
        (r#"{"authors":[]}"#, "", "missing field `title`"),
        (
            r#"{"title":"","authors":[{"born":1},{"born":70000}]}"#,
            "authors[1].born",
            "70000",
        ),
        (
            r#"{"title":"","authors":[{}]}"#,
            "authors[0]",
            "missing field `born`",
        ),
        (
            r#"{"title":"","authors":[{"born":1,"shape":{"Circle":"wide"}}]}"#,
            "authors[0].shape.Circle",
            "expected f64",
        ),
        (
            r#"{"title":"","authors":[{"born":1,"shape":"Oval"}]}"#,
            "authors[0].shape",
            "Oval",
        ),
        (
            r#"{"title":"","authors":[],"pair":[1,2,3]}"#,
            "pair",
            "more than 2",
        ),
        (
            r#"{"title":"","authors":[],"pair":[1]}"#,
            "pair",
            "length 1",
        ),
    ] {
        let document = Document::from_json(json.as_bytes()).unwrap();
        let error = from_document::<Book>(&document).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(text.contains(what), "{json}: {text}");
        assert!(
            path.is_empty() || text.contains(&format!("field {path:?}")),
            "{json}: {text}"
        );
    }
}

#[test]
fn what_no_document_can_hold_is_refused_with_its_field() {
    let of = |value: f64| BTreeMap::from([("prices", vec![1.0, value])]);
    for value in [f64::NAN, f64::INFINITY] {
        let error = to_document(&of(value)).unwrap_err();
        assert!(
            error.to_string().contains(r#"field "prices[1]""#),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    let large = BTreeMap::from([("n", u128::MAX)]);
    assert!(
        to_document(&large)
            .unwrap_err()
            .to_string()
            .contains(r#"field "n""#)
    );
    let keys = BTreeMap::from([("map", BTreeMap::from([(true, 1)]))]);
    let error = to_document(&keys).unwrap_err();
    assert!(error.to_string().contains(r#"field "map""#), "{error}");
    for value in [
        serde_json::json!(7),
        serde_json::json!([1]),
        serde_json::json!(null),
    ] {
        assert_eq!(to_document(&value).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
