//! `quire follow`: a copy of a database that is served elsewhere, which stays one, and serves
//! reads.

use super::serve::{Serving, read_token, runtime};
use crate::error::{Error, Result};
use crate::output::tell;
use crate::{Context, database};
use quire_server::{FollowOptions, Follower, serve_follower};
use quiredb::DatabaseOptions;
use std::path::PathBuf;

/// Copy a database that is served elsewhere, keep up with it, and serve reads of it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire follow ./copy --from http://127.0.0.1:9200 --listen 127.0.0.1:9201
  quire follow ./copy --from http://db1:9200 --from-token-file token --listen 0.0.0.0:9200 --token-file token
  quire stats http://127.0.0.1:9201                            how far behind it is

It prints where it listens as `quire serve` does. Requests wait until the first copy is whole; after that, whatever becomes of
the leader, what there is can be read. Writes are refused. If the follower turns out to be no copy of the leader, nothing is changed, and
it ends with an error.")]
pub(crate) struct Follow {
    /// The follower's directory; made if absent
    dir: PathBuf,
    /// The leader: a running `quire serve`, or a follower
    #[arg(long, value_name = "http://HOST:PORT")]
    from: String,
    /// A file that holds the token that the leader asks of its callers
    #[arg(long, value_name = "FILE")]
    from_token_file: Option<PathBuf>,
    #[command(flatten)]
    serving: Serving,
}

impl Follow {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let options = self.serving.options()?;
        let token = self
            .from_token_file
            .as_deref()
            .map(read_token)
            .transpose()?;
        let mut database = DatabaseOptions::default();
        if let Some(memory) = self.serving.memory {
            database.memory_bytes = memory.0;
        }
        let follow = FollowOptions {
            leader: self.from,
            token,
            dir: self.dir.clone(),
            database,
        };
        let runtime = runtime()?;
        let follower = Follower::open(context.env.clone(), follow)
            .map_err(|error| database::refused(&self.dir, error))?;
        runtime.block_on(async {
            let (listeners, stop) = self.serving.listen(context).await?;
            let followed = serve_follower(follower, listeners, options, stop).await;
            followed.map_err(|error| match error.downcast::<quiredb::Error>() {
                Ok(error) => Error::Engine {
                    context: "cannot follow".into(),
                    source: *error,
                },
                Err(error) => Error::Failed(crate::error::causes(&*error)),
            })
        })?;
        if !self.serving.quiet {
            tell("quire: stopped; everything is durable");
        }
        Ok(())
    }
}
