//! Gives up the position of an index, and what the source holds for it.

use super::follow::wait_for_positions;
use super::record::Record;
use super::session::Session;
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::topic::Source;
use std::time::Duration;

/// How long to wait for a source that does not answer, or still has the reader that was killed.
const RELEASE_CHECK: Duration = Duration::from_millis(500);

/// Removes the position of an index, if there is one. The source gives up what it holds for it
/// before: after a kill between, both are done again.
///
/// # Errors
/// Of the source, or of the files; to stop.
pub(crate) fn release(session: &mut Session<'_>, source: &dyn Source, index: &str) -> Result<()> {
    let positions = session.positions();
    let path = Checkpoint::path(&positions, index);
    let Some(stored) = Checkpoint::load(&**session.env, &path)? else {
        return Ok(());
    };
    if let Some(place) = &stored.place
        && stored.source == source.identity()
    {
        session.record(Record::Release {
            index: index.to_owned(),
        })?;
        wait_for_positions(session, &positions)?;
        let of_pipe = Checkpoint::path(session.pipe_state, &session.sink.name);
        let of_pipe = Checkpoint::load(&**session.env, &of_pipe)?;
        // An index that the pipe shipped to may have begun at the pipe's place.
        let used = of_pipe.and_then(|stored| stored.place);
        while let Err(error) = source.release(place, used.as_ref()) {
            let Error::SourceAway(why) = error else {
                return Err(error);
            };
            session.waits(format!("the source: {why}"));
            session.cluster.wait(RELEASE_CHECK)?;
        }
    }
    session.env.remove(&path)?;
    Ok(session.env.sync_dir(&positions)?)
}
