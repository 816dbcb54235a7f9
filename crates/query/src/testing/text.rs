//! Cases as text, and back.

use super::case::Case;
use crate::{Aggregate, Error, Filter, Order, Query, Result, find_all};
use quire_model::Document;
use std::fmt;

/// As the text that [`Case::parse`] reads.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for document in &self.documents {
            writeln!(f, "document {}", document.to_json())?;
        }
        for query in &self.queries {
            write_query(query, f)?;
        }
        Ok(())
    }
}

fn write_query(query: &Query, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "query\n  where {}", query.filter)?;
    if !query.order.is_empty() {
        let orders: Vec<_> = query.order.iter().map(ToString::to_string).collect();
        writeln!(f, "  order {}", orders.join(", "))?;
    }
    if query.skip > 0 {
        writeln!(f, "  skip {}", query.skip)?;
    }
    if let Some(limit) = query.limit {
        writeln!(f, "  limit {limit}")?;
    }
    if query.count {
        writeln!(f, "  count")?;
    }
    for (_, aggregate) in &query.aggregates {
        writeln!(f, "  aggregate {aggregate}")?;
    }
    Ok(())
}

impl Case {
    /// Reads the text of a case: see the [module](super).
    ///
    /// # Errors
    /// `Invalid`, with the line.
    pub fn parse(text: &str) -> Result<Case> {
        let (documents, queries) = (Vec::new(), Vec::new());
        let mut case = Case { documents, queries };
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                case.read_line(line)
                    .map_err(|error| Error::Invalid(format!("line {number}: {error}")))?;
            }
        }
        Ok(case)
    }

    fn read_line(&mut self, line: &str) -> Result<()> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let unknown = || Error::Invalid(format!("no such line: {line:?}"));
        match word {
            "document" => {
                let document = Document::from_json(rest.as_bytes());
                let document = document.map_err(|error| Error::Invalid(error.to_string()))?;
                self.documents.push(document);
                return Ok(());
            }
            "query" => {
                self.queries.push(find_all());
                return Ok(());
            }
            _ => {}
        }
        let query = self.queries.last_mut().ok_or_else(unknown)?;
        match word {
            "where" => query.filter = Filter::parse(rest)?,
            "order" => query.order = Order::parse_list(rest)?,
            "skip" => query.skip = rest.parse().map_err(|_| unknown())?,
            "limit" => query.limit = Some(rest.parse().map_err(|_| unknown())?),
            "count" => query.count = true,
            "aggregate" => {
                let aggregate = Aggregate::parse(rest)?;
                query.aggregates.push((aggregate.to_string(), aggregate));
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }
}
