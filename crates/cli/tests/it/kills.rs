//! Pipes that are killed again and again beside changes of what they read.

use crate::Quire;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Runs pipes and kills them, `kills` times, while `write` changes their source until it is to
/// stop. `meanwhile` is called with the number of the kill, while the pipes run.
pub(super) fn kill_again_and_again(
    quire: &Quire,
    files: &[&str],
    kills: u64,
    write: impl FnOnce(&AtomicBool) + Send,
    mut meanwhile: impl FnMut(u64),
) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| write(&stop));
        for kill in 0..kills {
            let running = files.iter().map(|file| run(quire, file));
            let running: Vec<Child> = running.collect();
            std::thread::sleep(Duration::from_millis(150 + 150 * (kill % 8)));
            meanwhile(kill);
            for mut child in running {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Starts a pipe that goes on until it is killed.
pub(super) fn run(quire: &Quire, file: &str) -> Child {
    let mut command = quire.command(&["pipe", "run", file]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}
