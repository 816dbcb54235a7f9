//! `quire follow`: copies a database that another server has, keeps the copy current, and serves
//! reads of it.

use super::serve::{Serving, read_token, runtime};
use crate::client::TlsArguments;
use crate::error::{Error, Result};
use crate::logging::LogOptions;
use crate::{Context, database};
use quire_server::{FollowOptions, Follower, serve_follower};
use quiredb::DatabaseOptions;
use std::path::PathBuf;

/// Copy the database of another server, keep the copy current, and serve reads of it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire follow ./copy --from http://127.0.0.1:9200 --listen 127.0.0.1:9201
  quire follow ./copy --from http://db1:9200 --from-token-file token \\
        --listen 0.0.0.0:9200 --token-file token
  quire follow ./copy --from https://db1:9200 --ca ca.pem --listen 127.0.0.1:9201
  quire stats http://127.0.0.1:9201                            how far behind it is

It prints its address as `quire serve` does. Requests wait until the first copy is complete. After
that the copy can be read, also while the leader is down. Writes are refused. If the directory has
a database that is not a copy of the leader, it does not change, and the command fails.")]
pub(crate) struct Follow {
    /// The directory of the copy; created if absent
    dir: PathBuf,
    /// The leader: a running `quire serve`, or a follower
    #[arg(long, value_name = "http(s)://HOST:PORT")]
    from: String,
    /// A file with the token of the leader
    #[arg(long, value_name = "FILE")]
    from_token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArguments,
    #[command(flatten)]
    serving: Serving,
}

impl Follow {
    pub(super) fn logging(&self) -> LogOptions {
        self.serving.logging()
    }

    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let options = self.serving.options(context)?;
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
            tls: self.tls.files(),
            dir: self.dir.clone(),
            database,
        };
        let runtime = runtime()?;
        let follower = Follower::open(context.env.clone(), follow)
            .map_err(|error| database::refused(&self.dir, error))?;
        runtime.block_on(async {
            let (listeners, stop) = self.serving.listen(context, &options, Vec::new()).await?;
            let followed = serve_follower(follower, listeners, options, stop).await;
            followed.map_err(|error| match error.downcast::<quiredb::Error>() {
                Ok(error) => Error::Engine {
                    context: "cannot follow".into(),
                    source: *error,
                },
                Err(error) => Error::Failed(crate::error::causes(&*error)),
            })
        })?;
        tracing::info!("stopped; everything is durable");
        Ok(())
    }
}
