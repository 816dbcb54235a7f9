//! `quire coprocessor`: WebAssembly modules of a database: kept, listed, dropped, run.

use super::wide::{self, Opened};
use crate::Context;
use crate::database;
use crate::error::{Error, Result, causes};
use crate::place::{Documents, Place};
use crate::size::Size;
use clap::builder::PossibleValuesParser;
use quiredb::coprocessor::{
    Code, CoprocessorInfo, Kind, Limits, MODULE_BYTES_MAX, Produced, RunOptions, TriggerInfo,
    TriggerOptions,
};
use quiredb::operations::Origin;
use quiredb::{Database, Document, View};
use serde_json::json;
use std::path::PathBuf;

/// Keep WebAssembly modules in a database, and run them over the rows of a collection
#[derive(Debug, clap::Args)]
#[command(after_help = "\
NAME is the newest version of a coprocessor, NAME/2 its second one.

Examples:
  quire coprocessor add ./db recrawl recrawl.wasm
  quire coprocessor list ./db
  quire coprocessor run ./db pages recrawl --as filter --columns fetched,changes
  quire coprocessor run ./db pages recrawl/1 --as map --argument '{\"day\":20000}'
  quire coprocessor drop ./db recrawl/1
  quire coprocessor attach ./db pages stamp --columns fetched,changes
  quire coprocessor attached ./db pages
  quire coprocessor detach ./db pages stamp")]
pub(crate) struct CoprocessorCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Keep a module as the next version of a coprocessor, or as the first of a new one
    Add {
        /// The directory of the database
        db: PathBuf,
        /// The name: letters, digits, `-`, `_` and `.`
        name: String,
        /// The WebAssembly module, of 1 MiB at most
        file: PathBuf,
    },
    /// List all versions of all coprocessors
    List {
        /// The directory of the database
        db: PathBuf,
    },
    /// Show one
    Show {
        /// The directory of the database
        db: PathBuf,
        /// NAME or NAME/VERSION
        name: String,
    },
    /// Drop a coprocessor with all its versions, or one of them
    Drop {
        /// The directory of the database
        db: PathBuf,
        /// NAME or NAME/VERSION
        name: String,
    },
    /// Run one over all rows of a collection
    Run(Box<Run>),
    /// Make one a trigger: it runs with each write of a collection
    Attach(Box<Attach>),
    /// List the triggers of a collection
    Attached {
        /// The directory of the database
        db: PathBuf,
        /// The collection
        collection: String,
    },
    /// End that one is a trigger; what it has written stays
    Detach {
        /// The directory of the database
        db: PathBuf,
        /// The collection
        collection: String,
        /// NAME
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct Attach {
    /// The directory of the database
    db: PathBuf,
    /// The collection
    collection: String,
    /// NAME or NAME/VERSION
    name: String,
    #[command(flatten)]
    how: How,
}

/// How code is called.
#[derive(Debug, clap::Args)]
struct How {
    /// Of a wide collection: the columns to read; no column group of others is read
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    columns: Vec<String>,
    /// A JSON object that the module can read
    #[arg(long, value_name = "JSON")]
    argument: Option<String>,
    /// The fuel of one call: about one unit for each instruction
    #[arg(long, value_name = "UNITS", default_value_t = Limits::default().fuel)]
    fuel: u64,
    /// The most memory of the module
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    memory: Size,
    /// The most that one call emits
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    output: Size,
}

impl How {
    fn columns(&self) -> Option<Vec<String>> {
        (!self.columns.is_empty()).then(|| self.columns.clone())
    }

    fn argument(&self) -> Result<Option<Document>> {
        let argument = self.argument.as_ref();
        let parsed = argument.map(|json| Document::from_json(json.as_bytes()));
        let parsed = parsed.transpose();
        parsed.map_err(|error| Error::Usage(format!("--argument: {error}")))
    }

    fn limits(&self) -> Limits {
        Limits {
            fuel: self.fuel,
            memory_bytes: usize::try_from(self.memory.0).unwrap_or(usize::MAX),
            output_bytes: usize::try_from(self.output.0).unwrap_or(usize::MAX),
        }
    }
}

#[derive(Debug, clap::Args)]
struct Run {
    #[command(flatten)]
    place: Place,
    /// The collection
    collection: String,
    /// NAME or NAME/VERSION
    name: String,
    /// What to use it as
    #[arg(long = "as", value_name = "KIND",
        value_parser = PossibleValuesParser::new(["filter", "map", "aggregate"]))]
    kind: String,
    #[command(flatten)]
    how: How,
}

impl CoprocessorCommand {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        match self.what {
            What::Add { db, name, file } => {
                let database = database::open_existing(context, &db)?;
                let read = context.env.read(&file, MODULE_BYTES_MAX as u64);
                let wasm = read.map_err(|error| {
                    let (file, error) = (file.display(), causes(&error));
                    Error::Failed(format!("cannot read the module {file}: {error}"))
                })?;
                let added = database.add_coprocessor(&name, &wasm);
                let failed = Error::engine(format!("cannot add the coprocessor `{name}`"));
                print(context, "added ", &added.map_err(failed)?)
            }
            What::List { db } => {
                let database = database::open_existing(context, &db)?;
                let all = database.coprocessors();
                let all = all.map_err(Error::engine("cannot list the coprocessors"))?;
                all.iter().try_for_each(|one| print(context, "", one))
            }
            What::Show { db, name } => {
                let database = database::open_existing(context, &db)?;
                let found = database.coprocessor_module(&name);
                let failed = Error::engine(format!("cannot show the coprocessor `{name}`"));
                print(context, "", &found.map_err(failed)?.0)
            }
            What::Drop { db, name } => {
                let database = database::open_existing(context, &db)?;
                let failed = Error::engine(format!("cannot drop the coprocessor `{name}`"));
                database.drop_coprocessor(&name).map_err(failed)?;
                match context.out.is_json() {
                    true => context.out.json_line(&json!({"dropped": name})),
                    false => context.out.line(format_args!("dropped {name}")),
                }
            }
            What::Run(run) => run.run(context),
            What::Attach(attach) => attach.run(context),
            What::Attached { db, collection } => {
                let database = database::open_existing(context, &db)?;
                let failed = Error::engine(format!("cannot list the triggers of `{collection}`"));
                let all = database.triggers(&collection).map_err(failed)?;
                all.iter()
                    .try_for_each(|one| print_trigger(context, "", one))
            }
            What::Detach {
                db,
                collection,
                name,
            } => {
                let database = database::open_existing(context, &db)?;
                let failed = Error::engine(format!("cannot detach the trigger `{name}`"));
                database
                    .detach_trigger(&collection, &name)
                    .map_err(failed)?;
                match context.out.is_json() {
                    true => context.out.json_line(&json!({"detached": name})),
                    false => context.out.line(format_args!("detached {name}")),
                }
            }
        }
    }
}

fn print(context: &mut Context, did: &str, one: &CoprocessorInfo) -> Result<()> {
    if context.out.is_json() {
        return context.out.json_line(&json!(one));
    }
    let kinds: Vec<&str> = one.kinds.iter().map(|kind| kind.name()).collect();
    context.out.line(format_args!(
        "{did}{}/{}: {}, {} bytes",
        one.name,
        one.version,
        kinds.join(", "),
        one.bytes
    ))
}

fn print_trigger(context: &mut Context, did: &str, one: &TriggerInfo) -> Result<()> {
    if context.out.is_json() {
        return context.out.json_line(&json!(one));
    }
    let columns = one.options.columns.as_ref();
    let columns = columns.map_or(String::new(), |names| {
        format!(", columns {}", names.join(", "))
    });
    let argument = one.options.argument.as_ref();
    let argument = argument.map_or(String::new(), |json| format!(", argument {json}"));
    context.out.line(format_args!(
        "{did}{}/{}{columns}{argument}",
        one.coprocessor, one.options.version
    ))
}

impl Attach {
    fn run(self, context: &mut Context) -> Result<()> {
        let options = TriggerOptions {
            columns: self.how.columns(),
            argument: self.how.argument()?,
            limits: self.how.limits(),
        };
        let database = database::open_existing(context, &self.db)?;
        let attached = database.attach_trigger(&self.collection, &self.name, &options);
        let failed = Error::engine(format!("cannot attach the trigger `{}`", self.name));
        print_trigger(context, "attached ", &attached.map_err(failed)?)
    }
}

impl Run {
    fn run(self, context: &mut Context) -> Result<()> {
        let failed = || Error::engine(format!("cannot run the coprocessor `{}`", self.name));
        let options = RunOptions {
            columns: self.how.columns(),
            argument: self.how.argument()?,
            limits: self.how.limits(),
            ..RunOptions::of(Kind::of_name(&self.kind).unwrap_or(Kind::Filter))
        };
        let (view, code) = self.open(context)?;
        for produced in view.run_code(&code, options).map_err(failed())? {
            match produced.map_err(failed())? {
                Produced::Row(found) => {
                    let origin = Origin::of(&found);
                    context.out.found(&origin, &found.document)?;
                }
                Produced::Document(document) => context.out.line(document.to_json())?,
            }
        }
        Ok(())
    }

    /// What to run, and over what.
    fn open(&self, context: &mut Context) -> Result<(View, Code)> {
        let failed = || Error::engine(format!("cannot run the coprocessor `{}`", self.name));
        let code = |database: &Database| database.coprocessor(&self.name).map_err(failed());
        match wide::open(context, &self.place, &self.collection)? {
            Opened::Wide(database, collection) => {
                Ok((collection.view().map_err(failed())?, code(&database)?))
            }
            Opened::Plain(Documents::Directory {
                database,
                collection,
            }) => {
                wide::refuse_columns(&self.collection, &self.how.columns)?;
                Ok((collection.view().map_err(failed())?, code(&database)?))
            }
            Opened::Plain(Documents::Server(_)) => Err(Error::Usage(
                "coprocessors of a server run over HTTP: POST /{collection}/_quire/coprocessor"
                    .into(),
            )),
        }
    }
}
