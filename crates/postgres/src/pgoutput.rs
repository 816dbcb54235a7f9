//! Messages of the plug-in `pgoutput`, protocol version 1.
//!
//! Source: PostgreSQL documentation, "Logical Replication Message Formats".

use crate::reader::Reader;

/// A message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// The begin of a transaction, with what is known of its commit.
    Begin {
        commit_lsn: u64,
        micros: i64,
        xid: u32,
    },
    Commit {
        end_lsn: u64,
    },
    Relation(Relation),
    Insert {
        relation: u32,
        new: Tuple<'a>,
    },
    Update {
        relation: u32,
        old: Option<Old<'a>>,
        new: Tuple<'a>,
    },
    Delete {
        relation: u32,
        old: Old<'a>,
    },
    Truncate {
        relations: Vec<u32>,
    },
    /// Of types, origins, and what is said by programs.
    Other,
}

/// The columns that a table has from here on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Relation {
    pub(crate) id: u32,
    pub(crate) schema: String,
    pub(crate) table: String,
    /// What of an old row is sent: `d` the primary key, `f` all, `i` an index, `n` nothing.
    pub(crate) identity: u8,
    pub(crate) columns: Vec<Column>,
}

/// A column.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) type_id: u32,
    /// Whether it is of what is sent of an old row.
    pub(crate) is_identity: bool,
}

/// A row before a change: all of it, or its key, in which other columns are null.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Old<'a> {
    pub(crate) is_whole: bool,
    pub(crate) tuple: Tuple<'a>,
}

/// The values of a row.
pub(crate) type Tuple<'a> = Vec<Cell<'a>>;

/// A value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell<'a> {
    Null,
    /// A large value that was not changed, and is not sent.
    Unchanged,
    Text(&'a str),
}

/// Decodes a message.
///
/// # Errors
/// If its bytes are no message: what is wrong, and where.
pub(crate) fn decode(bytes: &[u8]) -> Result<Message<'_>, String> {
    let mut reader = Reader::new(bytes);
    let message = match reader.byte()? {
        b'B' => Message::Begin {
            commit_lsn: reader.long()?,
            micros: reader.long()?.cast_signed(),
            xid: reader.number()?,
        },
        b'C' => {
            reader.take(1 + 8)?;
            let end_lsn = reader.long()?;
            reader.take(8)?;
            Message::Commit { end_lsn }
        }
        b'R' => Message::Relation(reader.relation()?),
        b'I' => {
            let relation = reader.number()?;
            reader.expect(b'N')?;
            let new = reader.tuple()?;
            Message::Insert { relation, new }
        }
        b'U' => {
            let relation = reader.number()?;
            let mut kind = reader.byte()?;
            let mut old = None;
            if kind != b'N' {
                old = Some(reader.old(kind)?);
                kind = reader.byte()?;
            }
            if kind != b'N' {
                return Err(reader.wrong("no new row"));
            }
            let new = reader.tuple()?;
            Message::Update { relation, old, new }
        }
        b'D' => {
            let relation = reader.number()?;
            let kind = reader.byte()?;
            let old = reader.old(kind)?;
            Message::Delete { relation, old }
        }
        b'T' => {
            let count = reader.number()?;
            reader.byte()?;
            // Each is read before the next one has room.
            let relations = (0..count)
                .map(|_| reader.number())
                .collect::<Result<_, _>>()?;
            Message::Truncate { relations }
        }
        _ => return Ok(Message::Other),
    };
    reader.end().map(|()| message)
}

impl<'a> Reader<'a> {
    fn relation(&mut self) -> Result<Relation, String> {
        let id = self.number()?;
        let (schema, table) = (self.name()?, self.name()?);
        let identity = self.byte()?;
        let count = self.short()?;
        let mut columns = Vec::new();
        for _ in 0..count {
            let is_identity = self.byte()? & 1 == 1;
            let name = self.name()?;
            let type_id = self.number()?;
            self.number()?;
            columns.push(Column {
                name,
                type_id,
                is_identity,
            });
        }
        Ok(Relation {
            id,
            schema,
            table,
            identity,
            columns,
        })
    }

    fn old(&mut self, kind: u8) -> Result<Old<'a>, String> {
        let is_whole = match kind {
            b'O' => true,
            b'K' => false,
            _ => return Err(self.wrong("an unknown kind of row")),
        };
        let tuple = self.tuple()?;
        Ok(Old { is_whole, tuple })
    }

    fn tuple(&mut self) -> Result<Tuple<'a>, String> {
        let count = self.short()?;
        let mut cells = Vec::new();
        for _ in 0..count {
            cells.push(match self.byte()? {
                b'n' => Cell::Null,
                b'u' => Cell::Unchanged,
                b't' => {
                    let length = self.number()? as usize;
                    Cell::Text(self.text(length)?)
                }
                _ => return Err(self.wrong("an unknown kind of value")),
            });
        }
        Ok(cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn put_tuple(out: &mut Vec<u8>, tuple: &[Option<Option<String>>]) {
        out.extend((tuple.len() as u16).to_be_bytes());
        for cell in tuple {
            match cell {
                None => out.push(b'u'),
                Some(None) => out.push(b'n'),
                Some(Some(text)) => {
                    out.push(b't');
                    out.extend((text.len() as u32).to_be_bytes());
                    out.extend(text.as_bytes());
                }
            }
        }
    }

    fn relation(columns: &[(String, u32, bool)]) -> Vec<u8> {
        let mut out = vec![b'R', 0, 0, 64, 5];
        out.extend(b"public\0t\0d");
        out.extend((columns.len() as u16).to_be_bytes());
        for (name, type_id, is_identity) in columns {
            out.push(u8::from(*is_identity));
            out.extend(name.as_bytes());
            out.push(0);
            out.extend(type_id.to_be_bytes());
            out.extend([255; 4]);
        }
        out
    }

    fn cells(tuple: &[Option<Option<String>>]) -> Tuple<'_> {
        let cells = tuple.iter().map(|cell| match cell {
            None => Cell::Unchanged,
            Some(None) => Cell::Null,
            Some(Some(text)) => Cell::Text(text),
        });
        cells.collect()
    }

    type Cells = Vec<Option<Option<String>>>;

    fn any_tuple() -> impl Strategy<Value = Cells> {
        prop::collection::vec(prop::option::of(prop::option::of(".{0,9}")), 0..5)
    }

    proptest! {
        #[test]
        fn messages_are_decoded_and_damaged_ones_are_errors_or_other_messages(
            old in any_tuple(), new in any_tuple(), is_whole: bool, has_old: bool,
            columns in prop::collection::vec(("[a-zé]{0,5}", any::<u32>(), any::<bool>()), 0..5),
            cut: prop::sample::Index, flipped: prop::sample::Index, bit in 0..8u8,
        ) {
            let kind = if is_whole { b'O' } else { b'K' };
            let (mut insert, mut update, mut delete) = (vec![b'I'], vec![b'U'], vec![b'D']);
            for message in [&mut insert, &mut update, &mut delete] {
                message.extend([0, 0, 64, 5]);
            }
            insert.push(b'N');
            put_tuple(&mut insert, &new);
            if has_old {
                update.push(kind);
                put_tuple(&mut update, &old);
            }
            update.push(b'N');
            put_tuple(&mut update, &new);
            delete.push(kind);
            put_tuple(&mut delete, &old);
            let truncate = [b"T\0\0\0\x02\x01".as_slice(), &[0, 0, 64, 5, 0, 0, 64, 6]].concat();
            let relation = relation(&columns);
            let begin = [b"B\0\0\0\0\0\0\x01\0".as_slice(), &[0; 7], &[9, 0, 0, 0, 7]].concat();
            let commit = [b"C".as_slice(), &[0; 9], &[0, 0, 0, 0, 0, 0, 2, 0], &[0; 8]].concat();

            prop_assert_eq!(
                decode(&begin), Ok(Message::Begin { commit_lsn: 256, micros: 9, xid: 7 })
            );
            prop_assert_eq!(decode(&commit), Ok(Message::Commit { end_lsn: 512 }));
            let id = 0x4005;
            let before = || Old { is_whole, tuple: cells(&old) };
            prop_assert_eq!(
                decode(&insert), Ok(Message::Insert { relation: id, new: cells(&new) })
            );
            prop_assert_eq!(decode(&update), Ok(Message::Update {
                relation: id, old: has_old.then(before), new: cells(&new),
            }));
            prop_assert_eq!(decode(&delete), Ok(Message::Delete { relation: id, old: before() }));
            prop_assert_eq!(
                decode(&truncate), Ok(Message::Truncate { relations: vec![id, id + 1] })
            );
            let Ok(Message::Relation(read)) = decode(&relation) else { panic!("{relation:?}") };
            let found: Vec<_> = read
                .columns
                .into_iter()
                .map(|column| (column.name, column.type_id, column.is_identity))
                .collect();
            prop_assert_eq!((read.id, read.identity, found), (id, b'd', columns));

            for whole in [begin, commit, insert, update, delete, truncate, relation] {
                // A part is an error; only the kind alone may be another message.
                prop_assert!(decode(&whole[..cut.index(whole.len())]).is_err());
                let mut damaged = whole.clone();
                damaged[flipped.index(whole.len())] ^= 1u8 << bit;
                let _ = decode(&damaged);
                let longer = [whole.as_slice(), &[0]].concat();
                prop_assert!(decode(&longer).is_err());
            }
        }

        #[test]
        fn any_bytes_are_decoded_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..99),
        ) {
            let _ = decode(&bytes);
            for kind in b"BCRIUDT" {
                let mut message = vec![*kind];
                message.extend(&bytes);
                let _ = decode(&message);
            }
        }
    }

    #[test]
    fn a_count_that_is_not_there_takes_no_memory() {
        assert!(decode(b"T\xff\xff\xff\xff\0").is_err());
        assert!(decode(b"I\0\0\0\x01N\0\x01t\xff\xff\xff\xff").is_err());
        assert_eq!(decode(b"Y123"), Ok(Message::Other));
        assert!(decode(b"").is_err());
    }
}
