//! Which columns of a table are fields of a document, and how.

use crate::value::{Kind, text, write_json};
use mysql_async::Value;
use quire_ship::{Cast, FieldsConfig, suggestion};
use serde_json::value::RawValue;

/// The fields that rows of known columns have.
#[derive(Debug)]
pub(crate) struct Fields(Vec<Field>);

#[derive(Debug)]
struct Field {
    column: usize,
    /// The name as JSON.
    name: String,
    kind: Kind,
    cast: Option<Cast>,
}

impl Fields {
    /// The fields of rows with these columns. A column that is not there has none: changes of the
    /// binlog have the columns of their time.
    pub(crate) fn of(config: &FieldsConfig, columns: &[(String, Kind)]) -> Fields {
        let columns = columns.iter().enumerate();
        let fields = columns.filter(|(_, (name, _))| config.takes(name));
        let fields = fields.map(|(column, (name, kind))| Field {
            column,
            name: json(config.rename.get(name).unwrap_or(name)),
            kind: *kind,
            cast: config.cast.get(name).copied(),
        });
        Fields(fields.collect())
    }

    /// Appends a row as an object.
    pub(crate) fn write(&self, values: &[Value], out: &mut String) {
        out.push('{');
        for (number, field) in self.0.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            out.push_str(&field.name);
            out.push(':');
            field.write(&values[field.column], out);
        }
        out.push('}');
    }

    /// The names of the fields, as JSON.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|field| field.name.as_str())
    }
}

impl Field {
    fn write(&self, value: &Value, out: &mut String) {
        let as_text = || text(self.kind, value);
        match self.cast {
            _ if *value == Value::NULL => out.push_str("null"),
            Some(Cast::Text) => match as_text() {
                Some(text) => out.push_str(&json(&text)),
                None => out.push_str("null"),
            },
            Some(Cast::Number) => match as_text() {
                // What is no number stays what it is: the sink may refuse it, and then says so.
                Some(text) if is_number(&text) => out.push_str(&text),
                _ => write_json(self.kind, value, out),
            },
            Some(Cast::Boolean) => match as_text().map(|text| text.parse::<f64>()) {
                Some(Ok(number)) => out.push_str(if number == 0.0 { "false" } else { "true" }),
                _ => write_json(self.kind, value, out),
            },
            Some(Cast::Json) if self.kind == Kind::Text => write_json(Kind::Json, value, out),
            Some(Cast::Json) | None => write_json(self.kind, value, out),
        }
    }
}

fn is_number(text: &str) -> bool {
    let is_first = |byte: u8| byte == b'-' || byte.is_ascii_digit();
    text.bytes().next().is_some_and(is_first) && serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Text as JSON.
pub(crate) fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What is wrong with a configuration for a table of these columns.
pub(crate) fn wrong(config: &FieldsConfig, columns: &[(String, Kind)]) -> Vec<String> {
    let names = config.columns.iter().flatten().chain(&config.drop);
    let names = names.chain(config.rename.keys()).chain(config.cast.keys());
    let mut wrong: Vec<String> = names.filter_map(|name| unknown(name, columns)).collect();
    let fields = Fields::of(config, columns);
    let mut names: Vec<&str> = fields.names().collect();
    names.sort_unstable();
    let twice = names.windows(2).filter(|pair| pair[0] == pair[1]);
    wrong.extend(twice.map(|pair| format!("two columns are the field {}", pair[0])));
    wrong
}

/// A sentence, if there is no such column.
pub(crate) fn unknown(name: &str, columns: &[(String, Kind)]) -> Option<String> {
    let mut known = columns.iter().map(|(name, _)| name.as_str());
    match known.clone().any(|known| known == name) {
        true => None,
        false => {
            let hint = suggestion(name, known.by_ref());
            Some(format!("there is no column {name:?}{hint}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_chosen_renamed_and_cast() {
        let bytes = |text: &str| Value::Bytes(text.into());
        let columns = ["id", "title", "secret", "price", "is_live", "extra"];
        let columns = columns.map(|name| (name.to_owned(), Kind::Text));
        let mut config = FieldsConfig {
            drop: vec!["secret".to_owned()],
            ..FieldsConfig::default()
        };
        config.rename.insert("title".into(), "na\"me".into());
        for (column, cast) in [
            ("id", Cast::Text),
            ("price", Cast::Number),
            ("is_live", Cast::Boolean),
            ("extra", Cast::Json),
        ] {
            config.cast.insert(column.into(), cast);
        }
        let write = |values: &[Value]| {
            let mut out = String::new();
            Fields::of(&config, &columns).write(values, &mut out);
            out
        };
        let row = [
            Value::Int(7),
            bytes("t"),
            bytes("s"),
            bytes("1.50"),
            bytes("0"),
            bytes("[1]"),
        ];
        assert_eq!(
            write(&row),
            r#"{"id":"7","na\"me":"t","price":1.50,"is_live":false,"extra":[1]}"#
        );
        let row = [
            Value::NULL,
            bytes("t"),
            bytes("s"),
            bytes("1,5"),
            bytes("yes"),
            bytes("[1"),
        ];
        assert_eq!(
            write(&row),
            r#"{"id":null,"na\"me":"t","price":"1,5","is_live":"yes","extra":"[1"}"#
        );
        assert!(wrong(&config, &columns).is_empty());
        config.rename.insert("id".into(), "price".into());
        config.drop.push("secrat".into());
        assert_eq!(
            wrong(&config, &columns),
            [
                "there is no column \"secrat\"; did you mean \"secret\"?",
                "two columns are the field \"price\""
            ]
        );
    }
}
