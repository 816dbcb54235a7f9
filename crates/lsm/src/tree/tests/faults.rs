//! Flushes and compactions that fail, on a full disk, or in a crash, at any step.

use super::*;
use quire_env::Fault;

#[test]
fn a_flush_or_compaction_that_fails_at_any_step_leaves_no_file_and_can_be_tried_again() {
    for work in [flush, compact] {
        let mut step = 0;
        loop {
            let env = SimEnv::new(1);
            let pair = prepared(&env);
            let at = env.operations() + step;
            env.fail_at(at, Fault::Enospc);
            let mut failed = 0;
            loop {
                match work(&pair.tree) {
                    Ok(Some(edit)) => pair.install(edit),
                    Ok(None) => break,
                    Err(error) => {
                        let kind = ErrorKind::Env(quire_env::ErrorKind::NoSpace);
                        assert_eq!(error.kind(), kind, "step {step}");
                        failed += 1;
                    }
                }
                let mut files = pair.context.files.list().unwrap();
                let named = pair.run_files();
                assert!(named.iter().all(|file| files.contains(file)));
                files.retain(|file| !named.contains(file));
                // One that could not be removed is for the store to find.
                let orphans = usize::from(env.operations() > at && failed == 0);
                assert!(files.len() <= orphans, "step {step}: {files:?}");
                pair.check_now();
            }
            if env.operations() <= at {
                break;
            }
            step += 1;
        }
        assert!(step >= 10, "{step} steps were made to fail");
    }
}

#[test]
fn a_full_disk_leaves_the_tree_usable() {
    let env = SimEnv::new(1);
    let mut pair = prepared(&env);
    let (files, used) = (
        pair.context.files.list().unwrap(),
        pair.tree.stats().table_bytes,
    );
    env.set_capacity(used + 500);
    for _ in 0..3 {
        let error = pair.tree.flush().expect_err("the disk is full");
        assert_eq!(error.kind(), ErrorKind::Env(quire_env::ErrorKind::NoSpace));
        assert_eq!(pair.context.files.list().unwrap(), files);
        fill(&mut pair, 3);
        pair.tree.freeze();
        pair.check_now();
    }
    assert!(pair.tree.frozen_bytes() > 0);
    env.set_capacity(1 << 20);
    pair.step(&Step::Flush);
    pair.step(&Step::Compact { full: true });
    pair.check_now();
    assert_eq!(pair.context.files.list().unwrap(), pair.run_files());
}

#[test]
fn after_a_crash_at_any_step_the_runs_of_the_last_manifest_open_whole() {
    let mut step = 0;
    loop {
        let env = SimEnv::new(step);
        let mut pair = prepared(&env);
        let mut manifest = (pair.tree.runs(), pair.tree.snapshot(Position(0)).flushed());
        env.crash_at(env.operations() + step);
        // A flush, then all steps of a compaction.
        let first = std::iter::once(flush as fn(&Tree) -> _);
        for work in first.chain(std::iter::repeat(compact as _)) {
            let Ok(Some(edit)) = work(&pair.tree) else {
                break;
            };
            // The manifest is durable here.
            let flushed = if manifest.1 < pair.position() {
                pair.position()
            } else {
                manifest.1
            };
            manifest = (pair.tree.preview(&edit), flushed);
            pair.tree.install(edit);
        }
        let crashed = env.crashed();
        let after = context(&env.after_crash(step + 7));
        pair.tree = Tree::open(spec(), after.clone(), manifest.0.clone()).unwrap();
        pair.check(&pair.tree.snapshot(manifest.1), b"key/010");
        for table in manifest.0.iter().flat_map(|run| &run.tables) {
            verify_table(
                after.env.as_ref(),
                &after.files.path(table.file).unwrap(),
                table,
            )
            .unwrap();
        }
        if !crashed {
            assert!(step > 20, "{step} steps");
            break;
        }
        step += 1;
    }
}
