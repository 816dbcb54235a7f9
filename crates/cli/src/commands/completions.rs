//! `quire completions`: the script by which a shell completes commands.

use crate::error::Result;
use crate::{Cli, Context};
use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

/// Print the script by which a shell completes commands, options and file names
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire completions bash > /etc/bash_completion.d/quire
  quire completions zsh > ~/.zfunc/_quire
  quire completions fish > ~/.config/fish/completions/quire.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let mut script = Vec::new();
        generate(self.shell, &mut Cli::command(), "quire", &mut script);
        let script = String::from_utf8_lossy(&script);
        context.out.line(script.trim_end())
    }
}
