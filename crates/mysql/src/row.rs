//! A row's primary key as the document's key.

use crate::value::{Kind, text};
use mysql_async::Value;

/// The key of a row: its primary key as text. Of several columns, `:` between them, with `\` before
/// each `:` and `\` of their own.
pub(crate) fn key(columns: &[(String, Kind)], key: &[usize], values: &[Value]) -> String {
    let part = |index: &usize| text(columns[*index].1, &values[*index]).unwrap_or_default();
    match key {
        [one] => part(one),
        _ => {
            let parts = key.iter().map(part);
            let parts: Vec<String> = parts
                .map(|part| part.replace('\\', "\\\\").replace(':', "\\:"))
                .collect();
            parts.join(":")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_several_columns_differ_when_rows_do() {
        let columns = vec![("a".to_owned(), Kind::Text), ("b".to_owned(), Kind::Text)];
        let bytes = |text: &str| Value::Bytes(text.into());
        let of = |a: &str, b: &str| key(&columns, &[0, 1], &[bytes(a), bytes(b)]);
        assert_eq!(of("x:", "y"), "x\\::y");
        assert_ne!(of("x:", "y"), of("x", ":y"));
        assert_eq!(key(&columns, &[1], &[bytes("x"), bytes("y:")]), "y:");
    }
}
