//! `quire reindex`: builds the index of a sink anew, and switches to it.

use super::pipe::{as_line, failed, open_source, read};
use crate::Context;
use crate::error::{Error, Result};
use crate::message::print_message;
use crate::output::Output;
use crate::size::{count, counted};
use quire_ship::{Reindex, ReindexEvent, ReindexStatus, Said, Step, Verification};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Build an index anew beside the one in use, compare it with the source, and switch to it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
FILE is the file of a pipe (see `quire help pipe`) with a part [reindex], which may be empty. The
index of its sink is an alias: readers and the pipe use it, and it moves to the new index. All that
is done is in FILE.state/SINK.reindex/journal.ndjson, and every setting is put back, after a kill
too: by the next run, or by clean.

Examples:
  quire reindex plan tracks.toml           what a run would change
  quire reindex run tracks.toml            builds, or goes on, and compares
  quire reindex status tracks.toml
  quire reindex switch tracks.toml
  quire reindex rollback tracks.toml
  quire reindex clean tracks.toml --drop   removes the index that is not in use")]
pub(crate) struct ReindexCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Say what a run would do, and which settings it would change for a time
    Plan {
        /// The file of the pipe
        file: PathBuf,
    },
    /// Build the new index, or go on with that, and compare it with the source
    Run {
        /// The file of the pipe
        file: PathBuf,
    },
    /// Say how far it is, what is changed at the moment, and what was done last
    Status {
        /// The file of the pipe
        file: PathBuf,
    },
    /// Move the alias to the new index, once that has all that the source has
    Switch {
        /// The file of the pipe
        file: PathBuf,
        /// Even if it was found different from the source
        #[arg(long)]
        force: bool,
    },
    /// Move the alias back to the old index
    Rollback {
        /// The file of the pipe
        file: PathBuf,
    },
    /// Put back every setting that a run has changed
    Clean {
        /// The file of the pipe
        file: PathBuf,
        /// Remove the index that the alias does not stand for, and end the reindex
        #[arg(long)]
        drop: bool,
    },
}

impl ReindexCommand {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        match self.what {
            What::Plan { file } => plan(context, &file),
            What::Run { file } => run(context, &file),
            What::Status { file } => status(context, &file),
            What::Switch { file, force } => switch(context, &file, force),
            What::Rollback { file } => rollback(context, &file),
            What::Clean { file, drop } => clean(context, &file, drop),
        }
    }
}

fn open(context: &Context, file: &Path) -> Result<Reindex> {
    let config = read(context, file)?;
    Reindex::new(context.env.clone(), &config).map_err(failed)
}

/// Calls `work` with what shows its events.
fn watched<T>(
    context: &mut Context,
    work: impl FnOnce(&(dyn Fn(&ReindexEvent) + Sync)) -> quire_ship::Result<T>,
) -> Result<T> {
    let out = Mutex::new(&mut context.out);
    let observe = |event: &ReindexEvent| {
        let mut out = out.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        report(&mut out, event);
    };
    work(&observe).map_err(failed)
}

/// Shows an event: on standard output with `--json`, else a line on standard error.
fn report(out: &mut Output, event: &ReindexEvent) {
    if out.is_json() {
        // An output that is closed ends the command when the result is printed.
        let _ = out.json_line(&json!(event));
        let _ = out.flush();
        return;
    }
    match event {
        ReindexEvent::Journal(Said { at, says }) => print_message(format_args!("{at} {says}")),
        ReindexEvent::Progress(progress) => print_message(as_line(progress)),
        ReindexEvent::Waiting { why } => print_message(format_args!("waiting: {why}")),
    }
}

fn plan(context: &mut Context, file: &Path) -> Result<()> {
    let reindex = open(context, file)?;
    let config = read(context, file)?;
    let opened = open_source(context, &config)?;
    let plan = reindex.plan(opened.source()).map_err(failed)?;
    match context.out.is_json() {
        true => context.out.json_line(&json!(plan)),
        false => context.out.line(plan.to_string().trim_end()),
    }
}

fn run(context: &mut Context, file: &Path) -> Result<()> {
    let reindex = open(context, file)?;
    let config = read(context, file)?;
    let opened = open_source(context, &config)?;
    let source = opened.source();
    let found = watched(context, |observe| reindex.run(source, observe, &|| false))?;
    print_verification(&mut context.out, &found, file)?;
    if found.differences_count > 0 {
        return Err(Error::Reported);
    }
    if reindex.keeps_following() {
        context.out.flush()?;
        watched(context, |observe| {
            reindex.follow(source, observe, &|| false)
        })?;
    }
    Ok(())
}

fn print_verification(out: &mut Output, found: &Verification, file: &Path) -> Result<()> {
    if out.is_json() {
        return out.json_line(&json!({"event": "verified", "verification": found}));
    }
    let of = found.source_documents.map_or(String::new(), |documents| {
        format!(" of {} in the source", count(documents))
    });
    out.line(format_args!(
        "{}: {}{of}, {} refused; {} compared, {}",
        found.index,
        counted(found.index_documents, "document", "documents"),
        count(found.refused),
        count(found.compared),
        counted(found.differences_count, "difference", "differences")
    ))?;
    for difference in &found.differences {
        let key = difference.key.as_deref().unwrap_or("all");
        out.line(format_args!("  {key}: {}", difference.what))?;
    }
    match found.differences_count {
        0 => out.line(format_args!(
            "next: quire reindex switch {}",
            file.display()
        )),
        _ => Ok(()),
    }
}

fn status(context: &mut Context, file: &Path) -> Result<()> {
    let status = open(context, file)?.status().map_err(failed)?;
    if context.out.is_json() {
        return context.out.json_line(&json!(status));
    }
    let out = &mut context.out;
    let ReindexStatus { alias, serving, .. } = &status;
    match (serving.as_deref(), &status.away) {
        (Some([]), _) => out.line(format_args!("alias {alias}: nothing"))?,
        (Some(behind), _) => out.line(format_args!("alias {alias}: {}", behind.join(", ")))?,
        (None, away) => out.line(format_args!(
            "alias {alias}: unknown: {}",
            away.as_deref().unwrap_or_default()
        ))?,
    }
    match &status.new {
        None => out.line("no reindex was begun")?,
        Some(new) => {
            let done: Vec<String> = status.done.iter().map(Step::to_string).collect();
            let old = status.old.as_deref().unwrap_or("none");
            out.line(format_args!("old index: {old}; new index: {new}"))?;
            out.line(format_args!("done: {}", or_nothing(&done.join(", "))))?;
        }
    }
    for (place, setting, former) in &status.changed {
        let former = match former {
            Value::Null => "its default".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        out.line(format_args!(
            "changed: {place}: {setting}, to be put back to {former}"
        ))?;
    }
    for (index, at) in &status.positions {
        out.line(format_args!(
            "{index}: {} shipped, {} refused, at {}",
            counted(at.changes, "change", "changes"),
            count(at.dead_letters),
            at.cursor()
        ))?;
    }
    if status.is_running {
        out.line("a command works on it")?;
    }
    for Said { at, says } in &status.journal {
        out.line(format_args!("{at} {says}"))?;
    }
    out.line(format_args!("journal: {}", status.journal_path.display()))
}

fn or_nothing(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text }
}

fn switch(context: &mut Context, file: &Path, force: bool) -> Result<()> {
    let reindex = open(context, file)?;
    let config = read(context, file)?;
    let opened = open_source(context, &config)?;
    let source = opened.source();
    let index = watched(context, |observe| {
        reindex.switch(source, force, observe, &|| false)
    })?;
    print_alias(&mut context.out, &index)
}

fn rollback(context: &mut Context, file: &Path) -> Result<()> {
    let reindex = open(context, file)?;
    let config = read(context, file)?;
    let opened = open_source(context, &config)?;
    let source = opened.source();
    let index = watched(context, |observe| {
        reindex.rollback(source, observe, &|| false)
    })?;
    print_alias(&mut context.out, &index)
}

fn print_alias(out: &mut Output, index: &str) -> Result<()> {
    match out.is_json() {
        true => out.json_line(&json!({"event": "switched", "index": index})),
        false => out.line(format_args!("the alias stands for {index}")),
    }
}

fn clean(context: &mut Context, file: &Path, drop: bool) -> Result<()> {
    let config = read(context, file)?;
    let reindex = Reindex::new(context.env.clone(), &config).map_err(failed)?;
    let opened = drop.then(|| open_source(context, &config)).transpose()?;
    let source = opened.as_ref().map(|opened| opened.source());
    let removed = watched(context, |observe| reindex.clean(source, observe, &|| false))?;
    if context.out.is_json() {
        return context
            .out
            .json_line(&json!({"event": "cleaned", "removed": removed}));
    }
    context.out.line("every setting is as it was")?;
    match removed {
        Some(index) => context.out.line(format_args!("removed {index}")),
        None => Ok(()),
    }
}
