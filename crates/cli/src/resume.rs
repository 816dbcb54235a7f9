//! The state of an interrupted load: a small file, named by the user, that says how much of the
//! inputs is durable.
//!
//! It is replaced atomically every few seconds, each time after the documents that it counts are
//! durable, and removed at the end. A load that resumes checks that the inputs and the collection
//! are those of the load before.

use crate::files;
use crate::input::InputArgument;
use quire_pipeline::{MadeKeys, Progress, SourcePosition, Target};
use quiredb::{Env, Position, is_at_or_before};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often it is written.
const EVERY: Duration = Duration::from_secs(5);

/// A longer file is not one of ours.
const BYTES_MAX: u64 = 16 << 20;

const VERSION: u32 = 2;

/// An input's name, and its bytes if it is a file.
type SavedInput = (String, Option<u64>);

/// What the file holds, as JSON. A change of its fields needs a new version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u32,
    collection: String,
    inputs: Vec<SavedInput>,
    place: Place,
    /// Documents, and bytes of input, that have been loaded.
    documents: u64,
    bytes: u64,
    /// The name of the load that keys are made of, if they are made.
    made_keys: Option<String>,
    /// For each partition, a position up to which it is durable.
    positions: Vec<u64>,
}

/// How much of the inputs is loaded; a [`SourcePosition`] without its byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Place {
    /// The index of the input, from 0.
    input: usize,
    /// The count of its documents that were read, bad ones included.
    documents: u64,
}

/// The file, and what is written to it next.
pub(crate) struct Resume {
    env: Arc<dyn Env>,
    path: PathBuf,
    saved: Saved,
    saved_at: Option<Duration>,
    /// Documents, and bytes of input, that earlier loads have loaded.
    before: (u64, u64),
}

impl Resume {
    /// Reads the file, if it is there.
    ///
    /// # Errors
    /// A message for the user: the file can't be read, or is of another load.
    pub(crate) fn open(
        env: Arc<dyn Env>,
        path: &Path,
        collection: &impl Target,
        inputs: &[InputArgument],
        made_keys: Option<&MadeKeys>,
    ) -> Result<Resume, String> {
        let size = |input: &InputArgument| input.size().map_err(|error| error.to_string());
        let inputs = inputs
            .iter()
            .map(|input| Ok((input.name(), size(input)?)))
            .collect::<Result<_, String>>()?;
        let fresh = Saved {
            version: VERSION,
            collection: collection.name().to_owned(),
            inputs,
            place: Place::default(),
            documents: 0,
            bytes: 0,
            made_keys: made_keys.map(|keys| keys.load().to_owned()),
            positions: Vec::new(),
        };
        let refuse = |what: &str| {
            Err(format!(
                "{} {what}; remove it to load from the beginning",
                path.display()
            ))
        };
        let saved = match files::read_text(path, BYTES_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => fresh.clone(),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
            Ok(text) => match serde_json::from_str::<Saved>(&text) {
                Ok(saved) if saved.version == VERSION => saved,
                _ => return refuse("is not the state of a load"),
            },
        };
        // The input where the load stopped, and those after it, may have been corrected since.
        let mut inputs = saved.inputs.iter().zip(&fresh.inputs).enumerate();
        let is_same = |(number, (had, now)): (usize, (&SavedInput, &SavedInput))| {
            had.0 == now.0 && (had.1 == now.1 || number >= saved.place.input)
        };
        if saved.collection != fresh.collection
            || saved.inputs.len() != fresh.inputs.len()
            || !inputs.all(is_same)
        {
            return refuse("is of a load of other inputs, or into another collection");
        }
        if saved.made_keys.is_some() != fresh.made_keys.is_some() {
            return refuse("is of a load that differs in --key auto");
        }
        let now = collection.positions().map_err(|error| error.to_string())?;
        let had: Vec<Position> = saved.positions.iter().copied().map(Position).collect();
        // The collection may have been split or merged since.
        if !had.is_empty() && !is_at_or_before(&had, &now) {
            return refuse("is of a load into a collection that has been created again since");
        }
        let before = (saved.documents, saved.bytes);
        let is_new = saved == fresh && saved.made_keys.is_some();
        let mut resume = Resume {
            env,
            path: path.to_owned(),
            saved: Saved {
                inputs: fresh.inputs,
                ..saved
            },
            saved_at: None,
            before,
        };
        if is_new {
            // Before the first document is durable: a load that is interrupted at once makes the
            // same keys again.
            resume.save(&now).map_err(|error| error.to_string())?;
        }
        Ok(resume)
    }

    /// Where the load begins.
    pub(crate) fn position(&self) -> SourcePosition {
        SourcePosition {
            input: self.saved.place.input,
            documents: self.saved.place.documents,
            byte: 0,
        }
    }

    /// The keys for documents that have none, if they are made: those of the load that was
    /// interrupted.
    pub(crate) fn made_keys(&self) -> Option<MadeKeys> {
        self.saved.made_keys.as_deref().map(MadeKeys::of_load)
    }

    /// Documents, and bytes of input, that earlier loads have loaded.
    pub(crate) fn before(&self) -> (u64, u64) {
        self.before
    }

    /// Notes the progress of this load, and saves it every few seconds.
    ///
    /// # Errors
    /// Of making the documents durable, or the file.
    pub(crate) fn note(
        &mut self,
        collection: &impl Target,
        progress: &Progress,
    ) -> quiredb::Result<()> {
        let place = Place {
            input: progress.position.input,
            documents: progress.position.documents,
        };
        if self.saved.place == place {
            // The documents behind the position are read again by the load that resumes.
            return Ok(());
        }
        self.saved.place = place;
        self.saved.documents = self.before.0 + progress.documents;
        self.saved.bytes = self.before.1 + progress.bytes;
        let now = self.env.monotonic();
        if self
            .saved_at
            .is_none_or(|saved_at| now.saturating_sub(saved_at) >= EVERY)
        {
            // In this order: what is written after the sync may be lost.
            let positions = collection.positions()?;
            collection.sync()?;
            self.save(&positions)?;
            self.saved_at = Some(now);
        }
        Ok(())
    }

    /// The load has ended, whole or not, and all that it wrote is durable.
    ///
    /// # Errors
    /// Of the machine.
    pub(crate) fn end(mut self, collection: &impl Target, is_whole: bool) -> quiredb::Result<()> {
        match is_whole {
            true if self.env.exists(&self.path)? => Ok(self.env.remove(&self.path)?),
            true => Ok(()),
            false => self.save(&collection.positions()?),
        }
    }

    /// Writes the file; the collection is durable up to these positions.
    fn save(&mut self, positions: &[Position]) -> quiredb::Result<()> {
        self.saved.positions = positions.iter().map(|position| position.0).collect();
        let text = serde_json::to_string(&self.saved).unwrap_or_default();
        Ok(self.env.replace(&self.path, text.as_bytes())?)
    }
}
