//! Arrays, as the server writes them, as JSON.

/// More than the dimensions that an array has.
const DEPTH_MAX: usize = 16;

/// An element, or an array of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Null,
    Text(String),
    Array(Vec<Item>),
}

/// Reads an array: `{a,"b \"c\"",NULL,{…}}`, with its bounds before it if they are unusual. None
/// if it is no array.
pub(crate) fn parse(text: &str, delimiter: char) -> Option<Item> {
    let text = match text.starts_with('[') {
        true => text.split_once('=')?.1,
        false => text,
    };
    let mut chars = text.chars().peekable();
    let item = parse_item(&mut chars, delimiter, 0)?;
    match (&item, chars.next()) {
        (Item::Array(_), None) => Some(item),
        _ => None,
    }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn parse_item(chars: &mut Chars<'_>, delimiter: char, depth: usize) -> Option<Item> {
    match chars.peek()? {
        '{' if depth < DEPTH_MAX => {
            chars.next();
            let mut items = Vec::new();
            if chars.next_if_eq(&'}').is_some() {
                return Some(Item::Array(items));
            }
            loop {
                items.push(parse_item(chars, delimiter, depth + 1)?);
                match chars.next()? {
                    '}' => return Some(Item::Array(items)),
                    next if next == delimiter => {}
                    _ => return None,
                }
            }
        }
        '{' => None,
        '"' => {
            chars.next();
            let mut text = String::new();
            loop {
                match chars.next()? {
                    '"' => return Some(Item::Text(text)),
                    '\\' => text.push(chars.next()?),
                    char => text.push(char),
                }
            }
        }
        _ => {
            let mut text = String::new();
            let mut is_escaped = false;
            while let Some(char) = chars.next_if(|char| *char != delimiter && *char != '}') {
                match char {
                    '\\' => {
                        is_escaped = true;
                        text.push(chars.next()?);
                    }
                    _ => text.push(char),
                }
            }
            match text.eq_ignore_ascii_case("null") && !is_escaped {
                true => Some(Item::Null),
                false => Some(Item::Text(text)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn show(item: &Item) -> String {
        match item {
            Item::Null => "NULL".to_owned(),
            Item::Text(text) => {
                format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
            Item::Array(items) => {
                let items: Vec<String> = items.iter().map(show).collect();
                format!("{{{}}}", items.join(","))
            }
        }
    }

    fn any_item() -> impl Strategy<Value = Item> {
        let leaf = prop_oneof![Just(None), ".{0,6}".prop_map(Some)];
        let row = prop::collection::vec(leaf, 0..4);
        prop::collection::vec(row, 1..4).prop_map(|rows| {
            let rows = rows.into_iter().map(|row| {
                let cells = row
                    .into_iter()
                    .map(|cell| cell.map_or(Item::Null, Item::Text));
                Item::Array(cells.collect())
            });
            Item::Array(rows.collect())
        })
    }

    proptest! {
        #[test]
        fn arrays_are_read_and_others_are_refused(item in any_item(), other in ".{0,30}") {
            prop_assert_eq!(parse(&show(&item), ','), Some(item));
            let _ = parse(&other, ',');
            let _ = parse(&format!("{{{other}"), ',');
        }
    }

    #[test]
    fn bounds_bare_words_and_nulls_are_read() {
        let text = |text: &str| Item::Text(text.to_owned());
        let two = vec![text("a b"), Item::Null, text("NULL")];
        assert_eq!(
            parse(r#"[0:2]={a b,NULL,"NULL"}"#, ','),
            Some(Item::Array(two))
        );
        assert_eq!(
            parse("{(1,2);(3,4)}", ';'),
            Some(Item::Array(vec![text("(1,2)"), text("(3,4)")]))
        );
        assert_eq!(parse("1 2 3", ','), None);
        assert_eq!(parse(&"{".repeat(100_000), ','), None);
    }
}
