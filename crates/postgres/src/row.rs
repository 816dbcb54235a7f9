//! A row as a document, and its primary key as the document's key.

use crate::value::{Kind, text, write_json, write_text};

/// The document of a row: its columns by name.
pub(crate) fn document(columns: &[(String, Kind)], values: &[Option<&str>]) -> Box<str> {
    let mut out = String::from("{");
    for ((name, kind), value) in columns.iter().zip(values) {
        if out.len() > 1 {
            out.push(',');
        }
        write_text(name, &mut out);
        out.push(':');
        write_json(kind, *value, &mut out);
    }
    out.push('}');
    out.into()
}

/// The key of a row: its primary key as text. Of several columns, `:` between them, with `\` before
/// each `:` and `\` of their own.
pub(crate) fn key<'a>(parts: impl ExactSizeIterator<Item = (&'a Kind, &'a str)>) -> String {
    let is_one = parts.len() == 1;
    let parts = parts.map(|(kind, value)| match (text(kind, value), is_one) {
        (part, true) => part,
        (part, false) => part.replace('\\', "\\\\").replace(':', "\\:"),
    });
    parts.collect::<Vec<String>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_several_columns_differ_when_rows_do() {
        let of = |a, b| key([(&Kind::Text, a), (&Kind::Text, b)].into_iter());
        assert_eq!(of("x:", "y"), "x\\::y");
        assert_ne!(of("x:", "y"), of("x", ":y"));
        assert_eq!(key([(&Kind::Text, "y:")].into_iter()), "y:");
        let columns = [("a".to_owned(), Kind::Text), ("b".to_owned(), Kind::Number)];
        let document = document(&columns, &[Some("x"), None]);
        assert_eq!(&*document, r#"{"a":"x","b":null}"#);
    }
}
