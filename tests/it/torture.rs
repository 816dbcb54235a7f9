//! A short run of `make torture`: one round of some kinds, on the real machine. Kinds that this
//! machine can't run are skipped and listed.

use crate::quire;
use quire_tests::torture::{Plan, run};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[test]
fn a_short_torture_is_clean() {
    // Killed processes have tests of their own.
    let kinds = ["ext4", "xfs", "calls", "rot", "repair"];
    let plan = Plan {
        quire: quire::binary().to_path_buf(),
        // On a disk: a temporary directory may be in memory.
        dir: quire::target_dir().join("torture"),
        time: Duration::from_secs(30),
        rounds: kinds.len() as u64,
        kinds: kinds.map(str::to_owned).to_vec(),
        seed: u64::from(std::process::id()),
    };
    let summary = run(&plan, &AtomicBool::new(false), &|line| println!("{line}")).unwrap();
    println!("{}", summary.text());
    assert!(summary.is_clean(), "{}", summary.text());
    assert!(summary.skipped().len() < kinds.len(), "nothing was done");
}
