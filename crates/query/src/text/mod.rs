//! Queries as text: the WHERE and ORDER BY grammar of SQL, for one field and one value at a time.
//!
//! Words, quotes, numbers and comments are those of the `sqlparser` crate. Its syntax trees are not
//! used: they nest one deep for each `AND` of a chain, and take half a kilobyte for each value of a
//! list.
//!
//! # Grammar
//! ```text
//! filter     = and { OR and }                 and  = not { AND not }          not = NOT not | one
//! one        = TRUE | FALSE | "(" filter ")" | path test
//!            | RANGE "(" path "," ('>' | '>=') "," value "," ('<' | '<=') "," value ")"
//!              (the signs in quotes)
//!            | SLICE "(" path "," number "," number ")"
//!            | (FUZZY | IFUZZY) "(" path "," 'text' "," number "," number ")"
//! test       = ("=" | "<>" | "!=" | "<" | "<=" | ">" | ">=") value
//!            | [NOT] BETWEEN value AND value | [NOT] IN "(" [value {"," value}] ")"
//!            | [NOT] (LIKE | ILIKE) 'pattern' [ESCAPE 'c']
//!            | [NOT] (REGEXP | IREGEXP) 'pattern' | IS [NOT] NULL
//! value      = number | -number | 'string' | TRUE | FALSE | NULL
//! path       = name { "." name }              name = word | "any text"
//! order      = by {"," by}
//! by         = (path | cast "(" path ")") [ASC | DESC] [NULLS (FIRST | LAST)]
//! cast       = NUMBER | DATE | ADDRESS | TEXT | BOOLEAN
//! aggregate  = measure [WHERE filter]
//! measure    = COUNT "(" ")" | (MIN | MAX | SUM | AVG | DISTINCT | APPROX_DISTINCT) "(" path ")"
//!            | PERCENTILE "(" path "," number ")"
//!            | TERMS "(" path "," number ")" | HISTOGRAM "(" path "," number ")"
//!            | GROUP "(" path {"," path} [":" named {"," named}] [HAVING having {AND having}]
//!              [ORDER BY called [ASC | DESC] {"," called [ASC | DESC]}] [LIMIT number] ")"
//! named      = aggregate [AS name]            having = called sign value
//! called     = name | path | measure          sign = "=" | "<>" | "<" | "<=" | ">" | ">="
//! ```

mod parse;
mod print;
mod tokens;

#[cfg(test)]
mod tests;
