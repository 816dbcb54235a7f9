//! The `quire` command: load, read and serve document databases from the command line.
//!
//! Each subcommand is a file in `commands`. Results go to standard output; messages and progress go
//! to standard error. Exit codes: 0 done, 1 not found, damaged or failed, 2 a wrong command line.

mod client;
mod commands;
mod config;
mod database;
mod demo;
mod documents;
mod error;
mod field_names;
mod files;
mod folder;
mod frozen_path;
mod http;
mod input;
mod limit;
mod link;
mod logging;
mod message;
mod millis;
mod output;
mod place;
mod progress;
mod remote;
mod resume;
mod rows;
mod settings;
mod signals;
mod size;
mod source;
mod table;
mod time;

use clap::Parser;
use clap::error::ErrorKind;
use commands::Command;
use error::Error;
use output::Output;
use quiredb::{Env, OsEnv};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// A document database: JSON documents in, durable, served by key.
#[derive(Debug, Parser)]
#[command(
    name = "quire",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
#[command(after_help = "\
Examples:
  quire demo                                      try it on data of this machine
  quire load ./db papers papers.ndjson            load a file of one JSON object a line
  quire get ./db papers 2101.00001                print a document
  quire serve ./db                                serve HTTP on 127.0.0.1:9200

Exit codes: 0 done; 1 not found, damaged or failed; 2 wrong usage.")]
struct Cli {
    /// Print results as JSON, one object or one a line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

/// What every command uses.
pub(crate) struct Context {
    /// The machine.
    pub(crate) env: Arc<dyn Env>,
    /// Standard output.
    pub(crate) out: Output,
}

/// Runs the command of the command line.
pub fn main() -> ExitCode {
    let done = config::expand(std::env::args_os().collect()).and_then(|arguments| {
        if let Some(text) = config::to_print(&arguments) {
            let mut out = Output::new(false);
            return out.line(text.trim_end()).and_then(|()| out.flush());
        }
        run(parse(&arguments)?)
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}

/// Reads the command line. A wrong one ends the process, but where a frozen file stands for a
/// database: then nothing is missing but another command.
fn parse(arguments: &[OsString]) -> error::Result<Cli> {
    Cli::try_parse_from(arguments).or_else(|error| {
        let frozen = arguments.iter().map(Path::new);
        let frozen = frozen.skip(1).find(|path| database::is_frozen_file(path));
        match frozen {
            Some(path) if error.kind() == ErrorKind::MissingRequiredArgument => {
                Err(database::refused_frozen(path))
            }
            _ => error.exit(),
        }
    })
}

fn run(cli: Cli) -> error::Result<()> {
    let env = OsEnv::new().map_err(|error| Error::Failed(error::causes(&error)))?;
    logging::start(cli.command.logging(), env.clone());
    let mut context = Context {
        env,
        out: Output::new(cli.json),
    };
    let done = cli.command.run(&mut context);
    let done = done.and_then(|()| context.out.end_documents());
    // Results before an error are still printed.
    let flushed = context.out.flush();
    done.and(flushed)
}
