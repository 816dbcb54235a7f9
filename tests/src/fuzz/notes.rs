//! Files besides the data: the snapshots of a backup, and the note of the scrubber.

use super::files::{file, of_input, open_database, place, read_database, template};
use super::{Target, Way, is_below_checksums};
use quire_env::{Env, SimEnv};
use quiredb::operations::{BackupOptions, backup};
use quiredb::{Database, Volumes};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A snapshot of a backup.
pub(super) const SNAPSHOT: Target = Target {
    name: "snapshot",
    run: snapshot,
    seeds: || {
        let (env, path) = backed_up();
        vec![file(&env.read_all(path).unwrap())]
    },
    has_checksums: true,
    bytes_max: 256 << 20,
};

/// The scrubber's note.
pub(super) const SCRUB: Target = Target {
    name: "scrub",
    run: scrub,
    seeds: || vec![file(&scrubbed().read_all(Path::new(SCRUB_PATH)).unwrap())],
    has_checksums: true,
    bytes_max: 256 << 20,
};

const BACKUP: &str = "/backup";
const SCRUB_PATH: &str = "/db/SCRUB";
/// Longer than a pass takes.
const A_WHILE: Duration = Duration::from_secs(30 * 24 * 3600);

fn back_up(env: &Arc<SimEnv>) -> quiredb::Result<u64> {
    let database = open_database(env)?;
    let options = BackupOptions {
        rate_bytes: None,
        keep: Some(2),
    };
    let made = backup(&database, Path::new(BACKUP), &options, &mut |_, _| {
        ControlFlow::Continue(())
    });
    database.close()?;
    Ok(made?.snapshot.number)
}

/// A machine with a database and its backup, and the path of the only snapshot.
fn backed_up() -> &'static (Arc<SimEnv>, PathBuf) {
    static BACKED_UP: OnceLock<(Arc<SimEnv>, PathBuf)> = OnceLock::new();
    BACKED_UP.get_or_init(|| {
        let env = template().after_crash(1);
        back_up(&env).unwrap();
        let is_snapshot = |path: &PathBuf| path.starts_with("/backup/snapshots");
        let path = env.files().into_iter().find(is_snapshot).unwrap();
        (env.after_crash(1), path)
    })
}

/// Lists, restores and extends the backup: what is restored is a database that can be read.
fn snapshot(input: &[u8]) -> Way {
    let (backed_up, path) = backed_up();
    let env = backed_up.after_crash(1);
    let whole = env.read_all(path).unwrap();
    let bytes = of_input(input);
    place(&*env, path.to_str().unwrap(), bytes);
    let machine: Arc<dyn Env> = env.clone();
    let listed = quiredb::operations::snapshots(Arc::clone(&machine), Path::new(BACKUP));
    env.remove_dir_all(Path::new("/db")).unwrap();
    let volumes = Volumes::single("/db");
    let restored =
        quiredb::operations::restore(machine, Path::new(BACKUP), None, &volumes, &mut |_, _| ());
    let outcome = restored.and_then(|_| {
        let read = read_database(&env);
        back_up(&env).and(read)
    });
    if !is_below_checksums(input) {
        assert_eq!(outcome.is_ok(), bytes == whole, "{outcome:?}");
        assert_eq!(listed.is_ok(), bytes == whole, "{listed:?}");
    }
    Way::of_result(&outcome).and(Way::of_result(&listed.map(|found| found.len() as u64)))
}

/// A machine with a database that was scrubbed for a while.
fn scrubbed() -> &'static Arc<SimEnv> {
    static SCRUBBED: OnceLock<Arc<SimEnv>> = OnceLock::new();
    SCRUBBED.get_or_init(|| {
        let env = template().after_crash(1);
        let database = open_database(&env).unwrap();
        pass(&env, &database);
        database.close().unwrap();
        env.after_crash(1)
    })
}

/// Lets time pass. Returns the number of passes in all.
fn pass(env: &SimEnv, database: &Database) -> u64 {
    for _ in 0..40 {
        env.advance(A_WHILE / 40);
        env.run_due();
    }
    database.scrub_stats().unwrap().passes
}

/// Scrubbing continues, or starts again.
fn scrub(input: &[u8]) -> Way {
    let env = scrubbed().after_crash(1);
    let whole = env.read_all(Path::new(SCRUB_PATH)).unwrap();
    let bytes = of_input(input);
    place(&*env, SCRUB_PATH, bytes);
    let database = open_database(&env).unwrap();
    let known = database.scrub_stats().unwrap().passes;
    let passes = pass(&env, &database);
    database.close().unwrap();
    if !is_below_checksums(input) {
        assert_eq!(known > 0, bytes == whole, "{known} passes before");
        assert!(passes > known, "{passes} after {known}");
    }
    Way::of_result(&Ok::<_, String>(known)).and(Way(passes.wrapping_sub(known)))
}
