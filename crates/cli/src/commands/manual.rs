//! `quire manual`: the manual pages of all commands.

use crate::error::{Error, Result};
use crate::{Cli, Context, files};
use clap::CommandFactory as _;
use std::path::PathBuf;

/// Write the manual pages of all commands: quire.1, quire-load.1, …
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire manual ~/.local/share/man/man1
  man quire-serve")]
pub(crate) struct Manual {
    /// The directory for the pages; it is made if there is none
    dir: PathBuf,
}

impl Manual {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let shown = self.dir.display();
        let failed = |error| Error::Failed(format!("cannot write the manual to {shown}: {error}"));
        files::make_directory(&self.dir).map_err(failed)?;
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        let mut count = 0;
        let mut commands = vec![command];
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands().cloned());
            let page = clap_mangen::Man::new(command);
            let mut text = Vec::new();
            page.render(&mut text).map_err(failed)?;
            files::write(&self.dir.join(page.get_filename()), &text).map_err(failed)?;
            count += 1;
        }
        match context.out.is_json() {
            true => context.out.json_line(&serde_json::json!({"pages": count})),
            false => context
                .out
                .line(format_args!("{count} manual pages are in {shown}")),
        }
    }
}
