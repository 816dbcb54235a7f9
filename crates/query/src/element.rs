//! [`Element`]: an element of an array at a path, by its position.

use quire_model::{ObjectRef, ValueRef};
use std::ops::ControlFlow;

/// Most positions in a path.
pub(crate) const POSITIONS_MAX: usize = 64;

/// Which element of an array: `[2]` in `a.b[2].c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Element {
    /// Bytes of the path's names before it: three in `a.b[2].c`.
    pub(crate) after: usize,
    /// Its place in the array, from 0.
    pub(crate) position: usize,
}

type Visit<'v, 'a> = &'v mut dyn FnMut(ValueRef<'a>) -> ControlFlow<()>;

/// Names that are still to be followed, and the elements to be chosen on the way.
#[derive(Clone, Copy)]
struct Way<'p> {
    names: &'p str,
    /// Bytes of the names that were followed.
    at: usize,
    /// Ascending by what is before them.
    elements: &'p [Element],
}

/// Calls `visit` with each scalar of `object` at a path whose arrays are entered at `elements`,
/// which ascend by what is before them. Arrays without a position are expanded.
pub(crate) fn visit<'a>(
    object: ObjectRef<'a>,
    names: &str,
    elements: &[Element],
    visit: Visit<'_, 'a>,
) -> ControlFlow<()> {
    let start = Way {
        names,
        at: 0,
        elements,
    };
    visit_object(object, start, visit)
}

// Recursion ends with the path and with the document, which is nested 128 deep at most.
fn visit_object<'a>(object: ObjectRef<'a>, way: Way<'_>, visit: Visit<'_, 'a>) -> ControlFlow<()> {
    let rest = way.names.get(way.at..).unwrap_or_default();
    // What comes before any dot of the path may be the name of a field, and so may the whole. A
    // position in the midst of a name belongs to no such field.
    let dots = rest.match_indices('.').map(|(dot, _)| dot);
    for end in dots.chain([rest.len()]) {
        let at = way.at + end;
        if way
            .elements
            .first()
            .is_some_and(|element| element.after < at)
        {
            break;
        }
        if let Some(value) = rest.get(..end).and_then(|name| object.get(name)) {
            visit_value(value, Way { at, ..way }, visit)?;
        }
    }
    ControlFlow::Continue(())
}

fn visit_value<'a>(value: ValueRef<'a>, way: Way<'_>, visit: Visit<'_, 'a>) -> ControlFlow<()> {
    if let Some((element, elements)) = way.elements.split_first()
        && element.after == way.at
    {
        return match value {
            ValueRef::Array(items) => match items.get(element.position) {
                Some(item) => visit_value(item, Way { elements, ..way }, visit),
                None => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        };
    }
    let is_end = way.at == way.names.len();
    match value {
        ValueRef::Array(items) => {
            for item in items {
                visit_value(item, way, visit)?;
            }
            ControlFlow::Continue(())
        }
        // After the dot.
        ValueRef::Object(object) if !is_end => {
            let at = way.at + 1;
            visit_object(object, Way { at, ..way }, visit)
        }
        ValueRef::Object(_) => ControlFlow::Continue(()),
        scalar if is_end => visit(scalar),
        _ => ControlFlow::Continue(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Aggregate, Filter, Path, Query, find_all};
    use quire_model::Document;
    use std::ops::ControlFlow;

    fn values(document: &str, path: &Path) -> String {
        let document = Document::from_json(document.as_bytes()).unwrap();
        let mut out = Vec::new();
        let _ = path.visit(document.root(), &mut |value| {
            value.write_json(&mut out);
            out.push(b' ');
            ControlFlow::Continue(())
        });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_element_is_chosen_where_its_position_stands() {
        let document = concat!(
            r#"{"a":[1,[2,3],{"b":[4,5]},{"b.c":[6,{"d":7}],"b":{"c":[8]}}],"a[0]":9,"#,
            r#""s":"text","o":{"0":10}}"#,
        );
        let a = || Path::new("a");
        for (path, expected) in [
            (a().element(0), "1 "),
            (a().element(1), "2 3 "),
            (a().element(1).element(1), "3 "),
            (a().element(2).field("b"), "4 5 "),
            (a().field("b").element(1), "5 "),
            (a().element(2).field("b").element(0), "4 "),
            (a().field("b.c").element(0), "8 6 "),
            (a().element(3).field("b.c").element(1).field("d"), "7 "),
            // Inside a name with a dot there is no array.
            (a().element(3).field("b").element(0).field("c"), ""),
            (a().element(4), ""),
            (a().element(usize::MAX), ""),
            (a().element(0).element(0), ""),
            (Path::new("a[0]"), "9 "),
            (Path::new("s").element(0), ""),
            (Path::new("o").element(0), ""),
        ] {
            assert_eq!(values(document, &path), expected, "{path}");
        }
    }

    #[test]
    fn only_filters_choose_elements() {
        let element = Path::new("a").element(1);
        let filter = Filter::Exists(element.clone());
        assert!(find_all().prepare().is_ok());
        let refused = [
            Query {
                fields: Some(vec![element.clone()]),
                ..find_all()
            },
            Query {
                aggregates: vec![(
                    "max".into(),
                    Aggregate {
                        what: crate::Measure::Max(element),
                        filter: Some(filter),
                    },
                )],
                ..find_all()
            },
        ];
        for query in refused {
            let error = query.prepare().unwrap_err().to_string();
            assert!(
                error.contains("a[1] chooses an element of an array"),
                "{error}"
            );
        }
        let error = crate::Order::parse_list("a[1]").unwrap_err().to_string();
        assert!(error.contains("chooses an element"), "{error}");
        for bad in [
            "a[-1] = 1",
            "a[x] = 1",
            "a[1.5] = 1",
            "a[1 = 1",
            "a[99999999999999999999]=1",
        ] {
            assert!(Filter::parse(bad).is_err(), "{bad}");
        }
        let deep = format!("a{} = 1", "[0]".repeat(65));
        assert!(Filter::parse(&deep).is_err());
    }
}
