//! What a statement of the binlog does to a table.

/// What.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// Its columns may be others from here on.
    Defined,
    /// Its rows are gone, without a change of each.
    Emptied(&'static str),
    /// Rows were changed by a statement, so the binlog does not have them.
    Statement,
}

/// The effect of a statement on a table. `default` is the database that it was run in.
pub(crate) fn effect(query: &str, default: &str, database: &str, table: &str) -> Effect {
    let tokens = tokens(query);
    let words: Vec<String> = tokens.iter().map(|token| token.to_lowercase()).collect();
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    // Whether the name at a token is the table's, and the token after it.
    let is_ours = |at: usize| match tokens.get(at + 1).map(String::as_str) {
        Some(".") => (
            tokens.get(at).is_some_and(|name| name == database)
                && tokens.get(at + 2).is_some_and(|name| name == table),
            at + 3,
        ),
        _ => (
            default == database && tokens.get(at).is_some_and(|name| name == table),
            at + 1,
        ),
    };
    let skip = |mut at: usize, optional: &[&str]| {
        while optional.contains(&word(at)) {
            at += 1;
        }
        at
    };
    let names_it = tokens.iter().any(|token| token == table);
    match word(0) {
        "insert" | "update" | "delete" | "replace" | "load" if names_it => Effect::Statement,
        "truncate" if is_ours(skip(1, &["table"])).0 => Effect::Emptied("truncated"),
        "drop" if ["database", "schema"].contains(&word(1)) => {
            let at = skip(2, &["if", "exists"]);
            match tokens.get(at).is_some_and(|name| name == database) {
                true => Effect::Emptied("dropped with its database"),
                false => Effect::None,
            }
        }
        "drop" if ["table", "tables"].contains(&word(1)) => {
            let mut at = skip(2, &["if", "exists"]);
            while at < tokens.len() {
                let (ours, after) = is_ours(at);
                if ours {
                    return Effect::Emptied("dropped");
                }
                at = after + 1;
            }
            Effect::None
        }
        "create" if word(1) == "or" && word(3) == "table" => {
            match is_ours(skip(4, &["if", "not", "exists"])).0 {
                true => Effect::Emptied("replaced"),
                false => Effect::None,
            }
        }
        "rename" => {
            let mut at = skip(1, &["table", "tables", "if", "exists"]);
            let (mut goes, mut comes) = (false, false);
            while at < tokens.len() {
                let (from, to) = is_ours(at);
                let (target, after) = is_ours(skip(to, &["to", "wait", "nowait"]));
                goes |= from;
                comes |= target;
                at = after + 1;
            }
            match (goes, comes) {
                (true, false) => Effect::Emptied("renamed"),
                (_, true) => Effect::Defined,
                _ => Effect::None,
            }
        }
        "alter" => {
            let mut at = skip(1, &["online", "ignore"]);
            if word(at) != "table" {
                return Effect::None;
            }
            at = skip(at + 1, &["if", "exists"]);
            let (true, after) = is_ours(at) else {
                // Another table may get its name.
                return match names_it {
                    true => Effect::Defined,
                    false => Effect::None,
                };
            };
            let rest = words.get(after..).unwrap_or_default();
            let pairs = || rest.iter().zip(rest.iter().skip(1));
            let of_partitions = |(what, part): (&String, &String)| {
                ["drop", "truncate", "exchange"].contains(&what.as_str()) && part == "partition"
            };
            let to_a_name = |(what, next): (&String, &String)| {
                what == "rename" && !["column", "index", "key"].contains(&next.as_str())
            };
            if pairs().any(of_partitions) {
                Effect::Emptied("relieved of a partition")
            } else if rest.iter().any(|word| word == "discard") {
                Effect::Emptied("relieved of its files")
            } else if pairs().any(to_a_name) {
                Effect::Emptied("renamed")
            } else {
                Effect::Defined
            }
        }
        "create" if names_it => Effect::Defined,
        _ => Effect::None,
    }
}

/// Words, names without their quotes, and other characters one by one; comments and texts left out.
fn tokens(query: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut chars = query.chars().peekable();
    while let Some(first) = chars.next() {
        let next = chars.peek().copied();
        match first {
            '/' if next == Some('*') => {
                let mut last = ' ';
                chars.next();
                for char in chars.by_ref() {
                    if last == '*' && char == '/' {
                        break;
                    }
                    last = char;
                }
            }
            '#' => drop(chars.by_ref().find(|char| *char == '\n')),
            '-' if next == Some('-') => drop(chars.by_ref().find(|char| *char == '\n')),
            '\'' | '"' => {
                while let Some(char) = chars.next() {
                    match char {
                        '\\' => drop(chars.next()),
                        _ if char == first => break,
                        _ => {}
                    }
                }
            }
            '`' => tokens.push(chars.by_ref().take_while(|char| *char != '`').collect()),
            _ if first.is_whitespace() => {}
            _ if is_of_name(first) => {
                let mut word = String::from(first);
                while let Some(char) = chars.next_if(|char| is_of_name(*char)) {
                    word.push(char);
                }
                tokens.push(word);
            }
            other => tokens.push(other.to_string()),
        }
    }
    tokens
}

fn is_of_name(char: char) -> bool {
    char.is_alphanumeric() || char == '_' || char == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_concern_the_table_are_told_from_others() {
        for (query, expected) in [
            ("BEGIN", Effect::None),
            ("ALTER TABLE `t` ADD COLUMN x INT", Effect::Defined),
            (
                "alter online table app.t drop column `rename`",
                Effect::Defined,
            ),
            ("ALTER TABLE t RENAME COLUMN a TO b", Effect::Defined),
            ("ALTER TABLE t RENAME TO u", Effect::Emptied("renamed")),
            (
                "ALTER TABLE t DROP PARTITION p0",
                Effect::Emptied("relieved of a partition"),
            ),
            ("ALTER TABLE u ADD x INT", Effect::None),
            ("ALTER TABLE other.t ADD x INT", Effect::Defined),
            ("/* why */ TRUNCATE TABLE t", Effect::Emptied("truncated")),
            ("TRUNCATE other.t", Effect::None),
            (
                "DROP TABLE IF EXISTS `u`,`app`.`t` /* by server */",
                Effect::Emptied("dropped"),
            ),
            ("DROP TABLE u", Effect::None),
            (
                "DROP DATABASE app",
                Effect::Emptied("dropped with its database"),
            ),
            ("RENAME TABLE t TO t_old, t_new TO t", Effect::Defined),
            ("RENAME TABLE t TO t_old", Effect::Emptied("renamed")),
            ("RENAME TABLE u TO v", Effect::None),
            ("UPDATE t SET a = 1", Effect::Statement),
            ("INSERT INTO u VALUES ('t')", Effect::None),
            (
                "CREATE OR REPLACE TABLE t (a INT)",
                Effect::Emptied("replaced"),
            ),
            ("GRANT ALL ON app.t TO x", Effect::None),
        ] {
            assert_eq!(effect(query, "app", "app", "t"), expected, "{query}");
        }
        assert_eq!(effect("TRUNCATE t", "other", "app", "t"), Effect::None);
    }
}
