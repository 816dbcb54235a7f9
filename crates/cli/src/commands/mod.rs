//! The subcommands, one a file: its arguments, its help, its work.

mod alias;
mod alter;
mod backup;
mod backups;
mod collections;
mod compact;
mod completions;
mod coprocessor;
mod count;
mod create;
mod delete;
mod drop;
mod fields;
mod follow;
pub(crate) mod freeze;
mod get;
mod indexed;
mod inspect;
mod key;
pub(crate) mod load;
mod manual;
mod partitions;
mod pipe;
mod put;
pub(crate) mod query;
mod reindex;
mod repair;
mod restore;
mod scan;
pub(crate) mod serve;
pub(crate) mod stats;
mod storage;
mod tail;
mod tasks;
mod tier;
mod token;
pub(crate) mod verify;
mod volume;
mod wide;

use crate::error::Result;
use crate::logging::LogOptions;
use crate::{Context, demo};

/// A subcommand.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Load(load::Load),
    Get(get::Get),
    Put(put::Put),
    Delete(delete::Delete),
    Scan(scan::Scan),
    Count(count::Count),
    Query(query::QueryCommand),
    Fields(fields::Fields),
    Freeze(freeze::Freeze),
    Inspect(inspect::Inspect),
    Tail(tail::Tail),
    Collections(collections::Collections),
    Create(create::Create),
    Alter(alter::Alter),
    Split(partitions::Split),
    Merge(partitions::Merge),
    Alias(alias::AliasCommand),
    Coprocessor(coprocessor::CoprocessorCommand),
    Drop(drop::Drop),
    Volume(volume::VolumeCommand),
    Stats(stats::Stats),
    Compact(compact::Compact),
    Tier(tier::Tier),
    Verify(verify::Verify),
    Repair(repair::Repair),
    Backup(backup::Backup),
    Backups(backups::Backups),
    Restore(restore::Restore),
    Serve(serve::Serve),
    Follow(follow::Follow),
    Pipe(pipe::Pipe),
    Reindex(reindex::ReindexCommand),
    Token(token::TokenCommand),
    Tasks(tasks::TasksCommand),
    Completions(completions::Completions),
    Manual(manual::Manual),
    Demo(demo::Demo),
}

impl Command {
    /// What it logs: a server more than a command that ends by itself.
    pub(crate) fn logging(&self) -> LogOptions {
        match self {
            Command::Serve(command) => command.logging(),
            Command::Follow(command) => command.logging(),
            _ => LogOptions::default(),
        }
    }

    /// Runs it.
    pub(crate) fn run(self, context: &mut Context) -> Result<()> {
        match self {
            Command::Load(command) => command.run(context),
            Command::Get(command) => command.run(context),
            Command::Put(command) => command.run(context),
            Command::Delete(command) => command.run(context),
            Command::Scan(command) => command.run(context),
            Command::Count(command) => command.run(context),
            Command::Query(command) => command.run(context),
            Command::Fields(command) => command.run(context),
            Command::Freeze(command) => command.run(context),
            Command::Inspect(command) => command.run(context),
            Command::Tail(command) => command.run(context),
            Command::Collections(command) => command.run(context),
            Command::Create(command) => command.run(context),
            Command::Alter(command) => command.run(context),
            Command::Split(command) => command.run(context),
            Command::Merge(command) => command.run(context),
            Command::Alias(command) => command.run(context),
            Command::Coprocessor(command) => command.run(context),
            Command::Drop(command) => command.run(context),
            Command::Volume(command) => command.run(context),
            Command::Stats(command) => command.run(context),
            Command::Compact(command) => command.run(context),
            Command::Tier(command) => command.run(context),
            Command::Verify(command) => command.run(context),
            Command::Repair(command) => command.run(context),
            Command::Backup(command) => command.run(context),
            Command::Backups(command) => command.run(context),
            Command::Restore(command) => command.run(context),
            Command::Serve(command) => command.run(context),
            Command::Follow(command) => command.run(context),
            Command::Pipe(command) => command.run(context),
            Command::Reindex(command) => command.run(context),
            Command::Token(command) => command.run(context),
            Command::Tasks(command) => command.run(context),
            Command::Completions(command) => command.run(context),
            Command::Manual(command) => command.run(context),
            Command::Demo(command) => command.run(context),
        }
    }
}
