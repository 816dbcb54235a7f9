//! What values of each type are, of the server's own types and of those that users made.

use crate::session::{Session, field};
use crate::value::Kind;
use quire_ship::Fault;
use std::collections::HashMap;

/// Numbers of types, which never change.
const BOOL: u32 = 16;
const BYTEA: u32 = 17;
const NUMBERS: [u32; 7] = [20, 21, 23, 26, 700, 701, 1700];
const JSON: [u32; 2] = [114, 3802];
const TIMESTAMP: u32 = 1114;
const TIMESTAMPTZ: u32 = 1184;

/// Domains of domains, and arrays of domains of arrays, that are followed.
const DEPTH_MAX: usize = 32;

/// Types that are of others.
#[derive(Debug, Default)]
pub(crate) struct Types(HashMap<u32, Of>);

#[derive(Debug, Clone, Copy)]
enum Of {
    Itself,
    Domain(u32),
    Array { of: u32, delimiter: char },
}

impl Types {
    /// Learns of types, and of those that they are of.
    pub(crate) async fn learn(
        &mut self,
        session: &mut Session,
        ids: impl Iterator<Item = u32>,
    ) -> Result<(), Fault> {
        let mut unknown: Vec<u32> = ids.filter(|id| !self.0.contains_key(id)).collect();
        while !unknown.is_empty() {
            let list: Vec<String> = unknown.iter().map(u32::to_string).collect();
            let rows = session
                .query(&format!(
                    "SELECT t.oid, t.typtype, t.typbasetype, t.typelem, e.typdelim FROM pg_type t \
                     LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A' AND \
                     t.typlen = -1 WHERE t.oid IN ({})",
                    list.join(", ")
                ))
                .await?;
            for id in unknown.drain(..) {
                // A type that was dropped since is text.
                self.0.insert(id, Of::Itself);
            }
            for row in rows {
                let id = |index| field(&row, index).parse().unwrap_or(0);
                let of = match (field(&row, 1), field(&row, 4).chars().next()) {
                    ("d", _) => Of::Domain(id(2)),
                    (_, Some(delimiter)) => Of::Array {
                        of: id(3),
                        delimiter,
                    },
                    _ => Of::Itself,
                };
                self.0.insert(id(0), of);
                if let Of::Domain(of) | Of::Array { of, .. } = of
                    && !self.0.contains_key(&of)
                {
                    unknown.push(of);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn kind(&self, id: u32) -> Kind {
        self.kind_within(id, DEPTH_MAX)
    }

    fn kind_within(&self, id: u32, depth: usize) -> Kind {
        match (self.0.get(&id), id) {
            (Some(Of::Domain(of)), _) if depth > 0 => self.kind_within(*of, depth - 1),
            (Some(Of::Array { of, delimiter }), _) if depth > 0 => Kind::Array {
                of: Box::new(self.kind_within(*of, depth - 1)),
                delimiter: *delimiter,
            },
            (_, BOOL) => Kind::Bool,
            (_, BYTEA) => Kind::Binary,
            (_, TIMESTAMP) => Kind::Timestamp,
            (_, TIMESTAMPTZ) => Kind::TimestampTz,
            (_, id) if NUMBERS.contains(&id) => Kind::Number,
            (_, id) if JSON.contains(&id) => Kind::Json,
            _ => Kind::Text,
        }
    }
}
