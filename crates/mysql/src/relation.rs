//! The declared documents against the tables that there are.

use crate::fields::{Fields, json, unknown, wrong};
use crate::options::{Join, MysqlOptions};
use crate::table::Table;
use quire_ship::{FieldsConfig, JoinConfig, JoinKind};
use std::collections::BTreeSet;

/// Types of numbers that are compared by value.
const INTEGERS: [&str; 5] = ["tinyint", "smallint", "mediumint", "int", "bigint"];

/// Types of texts of any length.
const TEXTS: [&str; 6] = [
    "char",
    "varchar",
    "tinytext",
    "text",
    "mediumtext",
    "longtext",
];

/// Other types by which rows may be joined.
const OTHERS: [&str; 7] = [
    "decimal",
    "date",
    "datetime",
    "timestamp",
    "year",
    "binary",
    "varbinary",
];

/// Checks that the documents can be made of these tables.
///
/// # Errors
/// All that is wrong, in a sentence.
pub(crate) fn check(options: &MysqlOptions, tables: &[Table]) -> Result<(), String> {
    let base = &tables[0];
    let mut all: Vec<String> = wrong(&options.fields, &base.columns)
        .into_iter()
        .map(|why| format!("{}: {why}", options.tables[0]))
        .collect();
    let fields = Fields::of(&options.fields, &base.columns);
    let mut names: BTreeSet<String> = fields.names().map(str::to_owned).collect();
    for join in &options.joins {
        let field = &join.config.field;
        let mut say = |why: String| all.push(format!("join {field:?}: {why}"));
        if !names.insert(json(field)) {
            say("the document has another field of this name".to_owned());
        }
        check_join(options, base, join, &tables[join.table], &mut say);
    }
    match all.is_empty() {
        true => Ok(()),
        false => Err(format!("the documents can't be made: {}", all.join("; "))),
    }
}

fn check_join(
    options: &MysqlOptions,
    base: &Table,
    join: &Join,
    table: &Table,
    say: &mut impl FnMut(String),
) {
    let (config, name) = (&join.config, &options.tables[join.table]);
    wrong(&config.fields(), &table.columns)
        .into_iter()
        .for_each(|why| say(format!("{name}: {why}")));
    let order = config.order.iter().map(|name| name.trim_start_matches('-'));
    let order = order.chain(config.sum.as_deref());
    order
        .filter_map(|column| unknown(column, &table.columns))
        .for_each(|why| say(format!("{name}: {why}")));
    for (own, other) in &config.on {
        let unknown_own = unknown(own, &base.columns);
        let unknown_other = unknown(other, &table.columns);
        if let Some(why) = &unknown_own {
            say(format!("{}: {why}", options.tables[0]));
        }
        if let Some(why) = &unknown_other {
            say(format!("{name}: {why}"));
        }
        let (Some(own_type), Some(other_type)) = (type_of(base, own), type_of(table, other)) else {
            continue;
        };
        if !is_comparable(own_type, other_type) {
            let of = |(kind, collation): &(String, Option<String>)| match collation {
                Some(collation) => format!("{kind} {collation}"),
                None => kind.clone(),
            };
            say(format!(
                "rows can't be joined by {own} ({}) and {other} ({}): let both be integers, or of \
                 one type, text of one collation",
                of(own_type),
                of(other_type)
            ));
        }
    }
    let is_unique = || {
        let is_related = |column: &String| config.on.values().any(|name| name == column);
        let mut unique = table.indexes.iter().filter(|index| index.is_unique);
        unique.any(|index| index.columns.iter().all(is_related))
    };
    if config.kind == JoinKind::One && !is_unique() {
        say(format!(
            "kind \"one\" needs a unique index of {name} on {}, or there could be many",
            columns(config.on.values())
        ));
    }
}

fn type_of<'t>(table: &'t Table, column: &str) -> Option<&'t (String, Option<String>)> {
    let place = table.columns.iter().position(|(name, _)| name == column)?;
    table.types.get(place)
}

/// Whether values of two columns are equal exactly if one is found by the text of the other.
fn is_comparable(own: &(String, Option<String>), other: &(String, Option<String>)) -> bool {
    let both = |types: &[&str]| [own, other].iter().all(|of| types.contains(&of.0.as_str()));
    both(&INTEGERS) || own.1 == other.1 && (both(&TEXTS) || own.0 == other.0 && both(&OTHERS))
}

/// Names between commas.
fn columns<'n>(names: impl Iterator<Item = &'n String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Lines that say what the documents are made of, and which look-ups have no index.
pub(crate) fn describe(options: &MysqlOptions, tables: &[Table]) -> Vec<String> {
    let shown = |config: &FieldsConfig, table: &Table| {
        let fields = Fields::of(config, &table.columns);
        fields.names().collect::<Vec<_>>().join(", ") + &casts(config)
    };
    let base = &tables[0];
    let key = base.key.iter().map(|at| &base.columns[*at].0);
    let mut lines = vec![format!(
        "documents of {}, with the key {}: {}",
        options.tables[0],
        columns(key),
        shown(&options.fields, base)
    )];
    for Join { config, table } in &options.joins {
        let (table, name) = (&tables[*table], &options.tables[*table]);
        let on: Vec<String> = config
            .on
            .iter()
            .map(|(own, other)| format!("{other} = {own}"))
            .collect();
        let (field, on) = (json(&config.field), on.join(" and "));
        let fields = shown(&config.fields(), table);
        lines.push(match config.kind {
            JoinKind::One => format!("{field}: the row of {name} with {on}, or null: {fields}"),
            JoinKind::Many => format!(
                "{field}: the rows of {name} with {on}, by {}: {fields}",
                order(config, table)
                    .into_iter()
                    .map(|(column, descends)| match descends {
                        true => format!("{column} descending"),
                        false => column,
                    })
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            JoinKind::Count => format!("{field}: how many rows of {name} have {on}"),
            JoinKind::Sum => format!(
                "{field}: the sum of {} in the rows of {name} with {on}",
                config.sum.as_deref().unwrap_or_default()
            ),
        });
        let sides = [
            (
                table,
                name,
                columns(config.on.values()),
                "each document reads",
            ),
            (
                base,
                &options.tables[0],
                columns(config.on.keys()),
                "each change there reads",
            ),
        ];
        for (table, name, related, who) in sides {
            let begins = |column: &String| related.split(", ").any(|name| name == column);
            let mut first = table
                .indexes
                .iter()
                .filter_map(|index| index.columns.first());
            if !first.any(begins) {
                lines.push(format!(
                    "warning: {field}: {name} has no index that begins with {related}; {who} all \
                     of {name}"
                ));
            }
        }
    }
    lines
}

fn casts(config: &FieldsConfig) -> String {
    let casts = config.cast.iter();
    let casts: Vec<String> = casts
        .map(|(column, cast)| format!("{column} as {}", format!("{cast:?}").to_lowercase()))
        .collect();
    match casts.is_empty() {
        true => String::new(),
        false => format!(" ({})", casts.join(", ")),
    }
}

/// The columns that order the rows of a join, and whether they descend; the primary key is last.
pub(crate) fn order(config: &JoinConfig, table: &Table) -> Vec<(String, bool)> {
    let named = config
        .order
        .iter()
        .map(|name| match name.strip_prefix('-') {
            Some(name) => (name.to_owned(), true),
            None => (name.clone(), false),
        });
    let mut order: Vec<(String, bool)> = named.collect();
    for at in &table.key {
        let (name, _) = &table.columns[*at];
        if !order.iter().any(|(known, _)| known == name) {
            order.push((name.clone(), false));
        }
    }
    order
}
