//! The engines that this process can be.

use super::{Documents, Engine};
use crate::Result;
use quire_frozen::{
    Access, FieldSpec, FolderOptions, FrozenBuilder, FrozenFile, FrozenFolder, FrozenOptions,
    OpenOptions,
};
use quiredb::query::{Options, Prepared, field, find};
use quiredb::{Env, OsEnv, ValueRef};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;

/// Frozen partitions, mapped into memory: one file, or a folder of them.
pub(super) enum Frozen {
    File(Box<FrozenFile>),
    Folder(FrozenFolder),
}

const FILES: OpenOptions = OpenOptions {
    access: Access::Map,
    verify: false,
};

fn build_file(env: &Arc<dyn Env>, path: &Path, documents: &Documents, ids: &[u64]) -> Result<()> {
    let fields = [
        FieldSpec::sortable("id"),
        FieldSpec::filterable("f"),
        FieldSpec::filterable("g"),
    ];
    let options = FrozenOptions {
        documents: false,
        ..FrozenOptions::default()
    };
    let mut builder = FrozenBuilder::create(Arc::clone(env), path, &fields, options)?;
    for (id, f, g) in ids.iter().map(|id| documents.row(*id)) {
        builder.set(0, ValueRef::UInt(id))?;
        builder.set(1, ValueRef::String(f))?;
        builder.set(2, ValueRef::String(g))?;
        builder.end(b"")?;
    }
    builder.finish()?;
    Ok(())
}

impl Engine for Frozen {
    type Question = Prepared;

    fn build(dir: &Path, documents: &Documents) -> Result<Frozen> {
        let env: Arc<dyn Env> = OsEnv::new()?;
        let files = documents.files();
        let path = |number: usize| dir.join(format!("{number:04}.quire"));
        for (number, ids) in files.iter().enumerate() {
            build_file(&env, &path(number), documents, ids)?;
        }
        Ok(match files.len() {
            1 => Frozen::File(Box::new(FrozenFile::open(&*env, &path(0), FILES)?)),
            _ => {
                let options = FolderOptions {
                    files: FILES,
                    ..FolderOptions::default()
                };
                Frozen::Folder(FrozenFolder::open(env, dir, options)?)
            }
        })
    }

    fn question(f: &str, g: Option<&str>) -> Result<Prepared> {
        let mut filter = field("f").eq(f);
        if let Some(g) = g {
            filter = filter.and(field("g").eq(g));
        }
        Ok(find(filter).limit(0).with_count().prepare()?)
    }

    fn count(&self, question: &Prepared) -> Result<u64> {
        let options = Options::default();
        let answer = match self {
            Frozen::File(file) => question.answer(&[file.as_ref()], &options)?,
            Frozen::Folder(folder) => {
                folder.with_snapshot(|snapshot| snapshot.query(question, &options))?
            }
        };
        Ok(answer.count.ok_or("no count")?)
    }
}

/// SQLite: a table with an index on each field, and statements that are prepared once.
pub(super) struct Sqlite(Connection);

impl Engine for Sqlite {
    type Question = (String, Option<String>);

    fn build(dir: &Path, documents: &Documents) -> Result<Sqlite> {
        let mut connection = Connection::open(dir.join("test.sqlite"))?;
        connection.execute_batch(
            "PRAGMA journal_mode = off; PRAGMA synchronous = off; PRAGMA mmap_size = 1073741824;
             CREATE TABLE test (id INTEGER PRIMARY KEY, f TEXT, g TEXT)",
        )?;
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare("INSERT INTO test VALUES (?, ?, ?)")?;
            for (id, f, g) in documents.rows() {
                insert.execute((i64::try_from(id)?, f, g))?;
            }
        }
        transaction.commit()?;
        connection.execute_batch(
            "CREATE INDEX by_f ON test (f); CREATE INDEX by_g ON test (g); ANALYZE",
        )?;
        Ok(Sqlite(connection))
    }

    fn question(f: &str, g: Option<&str>) -> Result<Self::Question> {
        Ok((f.to_owned(), g.map(str::to_owned)))
    }

    fn count(&self, (f, g): &Self::Question) -> Result<u64> {
        let of = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        let count = match g {
            None => {
                let sql = "SELECT COUNT(id) FROM test WHERE f = ?";
                self.0.prepare_cached(sql)?.query_row([f], of)?
            }
            Some(g) => {
                let sql = "SELECT COUNT(id) FROM test WHERE f = ? AND g = ?";
                self.0.prepare_cached(sql)?.query_row([f, g], of)?
            }
        };
        Ok(u64::try_from(count)?)
    }
}
