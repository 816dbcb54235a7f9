//! [`write_fields`]: some fields of a document as JSON.

use crate::Path;
use quire_model::{ObjectRef, ValueRef};

/// Appends `object` as JSON with the fields at `paths` alone, in the document's order. A field that
/// is an object is written whole. Dots in names are parts of paths: `a` is also about `a.b`. Of an
/// array on a path, the objects in it are written, each with the fields that the path names. An
/// object without such fields is left out, except the document itself.
///
/// ```
/// use quire_model::Document;
/// use quire_query::{Path, write_fields};
///
/// let car = br#"{
///     "mark":"audi","price":9,"at":{"city":"Ulm","zip":"89"},"offers":[{"by":"a","price":8}]
/// }"#;
/// let car = Document::from_json(car)?;
/// let mut json = Vec::new();
/// write_fields(car.root(), &["price".into(), "at.city".into(), "offers.by".into()], &mut json);
/// assert_eq!(json, br#"{"price":9,"at":{"city":"Ulm"},"offers":[{"by":"a"}]}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_fields(object: ObjectRef<'_>, paths: &[Path], out: &mut Vec<u8>) {
    let paths: Vec<&str> = paths.iter().map(Path::as_str).collect();
    if !write_object(object, &paths, out) {
        out.extend_from_slice(b"{}");
    }
}

/// Writes what the paths name of an object; false, and nothing, if that is nothing. Recursion ends
/// with the paths.
fn write_object(object: ObjectRef<'_>, paths: &[&str], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    for (name, value) in object.fields() {
        let before = out.len();
        out.push(if before == start { b'{' } else { b',' });
        ValueRef::String(name).write_json(out);
        out.push(b':');
        let mut below = Vec::new();
        let mut is_whole = false;
        for path in paths {
            match path.strip_prefix(name) {
                Some("") => is_whole = true,
                Some(rest) => below.extend(rest.strip_prefix('.')),
                // Dots in a name are parts of the path: `a` is also about `a.b`.
                None => is_whole |= is_below(name, path),
            }
        }
        let is_written = match is_whole {
            true => {
                value.write_json(out);
                true
            }
            false => !below.is_empty() && write_below(value, &below, out),
        };
        if !is_written {
            out.truncate(before);
        }
    }
    let is_written = out.len() > start;
    if is_written {
        out.push(b'}');
    }
    is_written
}

/// Whether a name is that of a field below a path.
fn is_below(name: &str, path: &str) -> bool {
    let rest = name.strip_prefix(path);
    !path.is_empty() && rest.is_some_and(|rest| rest.starts_with('.'))
}

fn write_below(value: ValueRef<'_>, paths: &[&str], out: &mut Vec<u8>) -> bool {
    match value {
        ValueRef::Object(object) => write_object(object, paths, out),
        ValueRef::Array(items) => {
            let start = out.len();
            for item in items {
                let before = out.len();
                out.push(if before == start { b'[' } else { b',' });
                if !write_below(item, paths, out) {
                    out.truncate(before);
                }
            }
            let is_written = out.len() > start;
            if is_written {
                out.push(b']');
            }
            is_written
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_model::Document;

    fn fields(json: &str, paths: &[&str]) -> String {
        let document = Document::from_json(json.as_bytes()).unwrap();
        let paths: Vec<Path> = paths.iter().map(|path| Path::new(path)).collect();
        let mut out = Vec::new();
        write_fields(document.root(), &paths, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_what_the_paths_name_is_written() {
        let json = concat!(
            r#"{"a":1.10,"ab":2,"o":{"p":{"q":1,"r":[2]},"s":3},"#,
            r#""l":[{"x":1,"y":2},4,[{"x":5}],{"y":6}],"e":{}}"#,
        );
        for (paths, right) in [
            (&["a"][..], r#"{"a":1.10}"#),
            (&["ab", "a", "a"], r#"{"a":1.10,"ab":2}"#),
            (&["o.p"], r#"{"o":{"p":{"q":1,"r":[2]}}}"#),
            (&["o.p.q", "o.s"], r#"{"o":{"p":{"q":1},"s":3}}"#),
            (&["o.p.q", "o"], r#"{"o":{"p":{"q":1,"r":[2]},"s":3}}"#),
            (&["l.x"], r#"{"l":[{"x":1},[{"x":5}]]}"#),
            (&["e", "e.f", "nowhere", "a.b", "l.z"], r#"{"e":{}}"#),
            (&["nowhere"], "{}"),
            (&[], "{}"),
        ] {
            assert_eq!(fields(json, paths), right, "{paths:?}");
        }
        let json = r#"{"s.name":"web","s.p.q":1,"a.b":{"c":1,"d.e":2},"st":4}"#;
        for (paths, right) in [
            (&["s"][..], r#"{"s.name":"web","s.p.q":1}"#),
            (&["s.p"], r#"{"s.p.q":1}"#),
            (&["s.p.q", "st"], r#"{"s.p.q":1,"st":4}"#),
            (&["a"], r#"{"a.b":{"c":1,"d.e":2}}"#),
            (&["a.b.c"], r#"{"a.b":{"c":1}}"#),
            (&["a.b.d"], r#"{"a.b":{"d.e":2}}"#),
            (&["s.name.x", "a.b.c.d", "t"], "{}"),
        ] {
            assert_eq!(fields(json, paths), right, "{paths:?}");
        }
    }
}
