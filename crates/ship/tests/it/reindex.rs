//! Whatever kills a reindex, every setting is put back, and nothing is lost.

use crate::fake_cluster::{FakeCluster, Index};
use quire_ship::{
    CollectionSource, Error, PipeConfig, Reindex, ReindexEvent, ShipOptions, Step, Verification,
    ship,
};
use quiredb::{Collection, CollectionSettings, Database, Document, Env, Key, OsEnv};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const RECOVERY_BYTES: &str = "indices.recovery.max_bytes_per_sec";
pub(crate) const OLD: &str = "tracks-000001";
pub(crate) const NEW: &str = "tracks-000002";

/// A cluster with an index that a pipe keeps in step with a collection.
pub(crate) struct Stage {
    env: Arc<dyn Env>,
    dir: tempfile::TempDir,
    pub(crate) cluster: FakeCluster,
    database: Database,
    collection: Collection,
    config: PipeConfig,
}

impl Stage {
    pub(crate) fn new(version: &'static str, reindex: &str) -> Stage {
        let env: Arc<dyn Env> = OsEnv::new().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let cluster = FakeCluster::start(version);
        let database = Database::open(dir.path().join("db")).unwrap();
        let settings = CollectionSettings {
            partitions: 2,
            ..CollectionSettings::default()
        };
        let collection = database.create_collection("tracks", settings).unwrap();
        let file = dir.path().join("pipe.toml");
        let url = &cluster.url;
        let text = format!(
            "[source]\ndirectory = \"db\"\ncollection = \"tracks\"\n[[sink]]\nname = \"search\"\n\
             kind = \"elasticsearch\"\nurl = \"{url}\"\nindex = \"tracks\"\nbulk_bytes = 2000\n\
             concurrency = 2\n[reindex]\n{reindex}\n"
        );
        std::fs::write(&file, text).unwrap();
        let config = PipeConfig::read(&*env, &file).unwrap();
        let stage = Stage {
            env,
            dir,
            cluster,
            database,
            collection,
            config,
        };
        stage.write(0..60);
        let settings = json!({"index.number_of_shards": "5", "index.number_of_replicas": "2",
            "index.refresh_interval": "7s", "index.auto_expand_replicas": "false"});
        let settings = serde_json::from_value(settings).unwrap();
        {
            let mut state = stage.cluster.state();
            let index = Index {
                settings,
                ..Index::default()
            };
            state.indexes.insert(OLD.to_owned(), index);
            let behind = BTreeMap::from([(OLD.to_owned(), json!({"filter": {"x": 1}}))]);
            state.aliases.insert("tracks".to_owned(), behind);
            let scope = match version {
                "8.1.0" => &mut state.persistent,
                _ => &mut state.transient,
            };
            scope.insert(RECOVERY_BYTES.to_owned(), json!("33mb"));
        }
        stage.pipe();
        stage
    }

    fn write(&self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            if number % 7 == 0 {
                self.collection.delete(&Key::from(number / 2)).unwrap();
            }
            let json = format!("{{\"_id\":{number},\"n\":{}}}", number * number);
            let document = Document::from_json(json.as_bytes()).unwrap();
            self.collection.put(&document).unwrap();
        }
    }

    /// Splits each partition in two.
    fn split(&self) {
        let partitions = self.collection.settings().partitions;
        let split = self
            .database
            .split_collection("tracks", 2 * partitions, &|_| true);
        split.unwrap();
        assert_eq!(self.collection.settings().partitions, 2 * partitions);
    }

    fn source(&self, grows: bool) -> CollectionSource {
        CollectionSource::new(self.collection.clone(), "db/tracks", grows)
    }

    pub(crate) fn reindex(&self) -> Reindex {
        Reindex::new(Arc::clone(&self.env), &self.config).unwrap()
    }

    /// Runs the pipe until it is level, into what the alias stands for.
    fn pipe(&self) {
        let target = self.config.sinks[0].target(&self.env).unwrap();
        let options = ShipOptions {
            state: self.config.state(),
            once: true,
            report_every: Duration::from_secs(1),
        };
        let source = self.source(false);
        let ends = ship(&self.env, &source, &[target], &options, &|_| (), &|| false);
        assert!(ends.unwrap().remove(0).unwrap().is_level);
    }

    fn journal(&self) -> PathBuf {
        let state = self.dir.path().join("pipe.toml.state");
        state.join("search.reindex/journal.ndjson")
    }

    /// What is written in the journal and changed in the cluster, each counted as one.
    pub(crate) fn steps(&self) -> usize {
        let journal = std::fs::read(self.journal()).unwrap_or_default();
        let lines = journal.iter().filter(|byte| **byte == b'\n').count();
        lines + self.cluster.state().changes
    }

    /// The settings of the cluster.
    fn settings(&self) -> (BTreeMap<String, Value>, BTreeMap<String, Value>) {
        let state = self.cluster.state();
        (state.transient.clone(), state.persistent.clone())
    }

    fn index_settings(&self, index: &str) -> Option<BTreeMap<String, Value>> {
        let state = self.cluster.state();
        let mut settings = state.indexes.get(index)?.settings.clone();
        settings.remove("index.number_of_shards");
        Some(settings)
    }

    pub(crate) fn serving(&self) -> Vec<String> {
        self.cluster.state().aliases["tracks"]
            .keys()
            .cloned()
            .collect()
    }

    pub(crate) fn documents(&self, index: &str) -> BTreeMap<String, Value> {
        self.cluster.state().indexes[index].documents()
    }

    fn expected(&self) -> BTreeMap<String, Value> {
        let found = self.collection.scan(..).unwrap().map(|found| {
            let document = found.unwrap().document;
            let mut value: Value = serde_json::from_str(&document.to_json()).unwrap();
            let id = value.as_object_mut().unwrap().shift_remove("_id").unwrap();
            (id.to_string(), value)
        });
        found.collect()
    }

    fn run(&self) -> Verification {
        let reindex = self.reindex();
        reindex.run(&self.source(false), &quiet, &|| false).unwrap()
    }
}

pub(crate) fn quiet(_: &ReindexEvent) {}

/// Kills all three commands after each line of the journal and after each change to the cluster,
/// then either cleans up or goes on at once.
fn kill_at_every_step(version: &'static str) {
    for kill in 1.. {
        let mut was_killed = false;
        // Every third time without: that goes on at once.
        for cleans in [true, false]
            .into_iter()
            .take(1 + usize::from(kill % 3 == 0))
        {
            let stage = Stage::new(version, "verify_documents = 50");
            let before = (stage.settings(), stage.index_settings(OLD));
            let (reindex, source) = (stage.reindex(), stage.source(false));
            let from = stage.steps();
            let stop = || stage.steps() - from >= kill;
            let mut is_over = false;
            for command in ["run", "switch", "rollback"] {
                if is_over {
                    break;
                }
                let end = match command {
                    "run" => reindex.run(&source, &quiet, &stop).map(drop),
                    "switch" => reindex.switch(&source, false, &quiet, &stop).map(drop),
                    _ => reindex.rollback(&source, &quiet, &stop).map(drop),
                };
                match end {
                    Ok(()) => {}
                    Err(Error::Stopped) => is_over = true,
                    Err(error) => panic!("{command}, killed at {kill}: {error}"),
                }
                assert_eq!(stage.serving().len(), 1, "killed at {kill}");
                stage.write(kill as u64..kill as u64 + 9);
            }
            was_killed |= is_over;
            if cleans {
                reindex.clean(None, &quiet, &|| false).unwrap();
                assert_eq!(stage.settings(), before.0, "killed at {kill}");
                let new = stage.index_settings(NEW);
                assert!(
                    new.is_none() || new == before.1,
                    "killed at {kill}: {new:?}"
                );
                assert!(reindex.status().unwrap().changed.is_empty());
            }
            let found = stage.run();
            assert_eq!(found.differences, [], "killed at {kill}");
            assert_eq!(
                (stage.settings(), stage.index_settings(NEW)),
                before,
                "at {kill}"
            );
            assert_eq!(stage.documents(NEW), stage.expected(), "killed at {kill}");
            assert_eq!(
                reindex.switch(&source, false, &quiet, &|| false).unwrap(),
                NEW
            );
            stage.write(100..110);
            stage.pipe();
            assert_eq!(stage.serving(), [NEW]);
            assert_eq!(stage.documents(NEW), stage.expected(), "killed at {kill}");
            assert_eq!(reindex.rollback(&source, &quiet, &|| false).unwrap(), OLD);
            assert_eq!(stage.documents(OLD), stage.expected(), "killed at {kill}");
            assert_eq!(
                stage.cluster.state().aliases["tracks"],
                BTreeMap::from([(OLD.to_owned(), json!({"filter": {"x": 1}}))])
            );
            assert_eq!((stage.settings(), stage.index_settings(NEW)), before);
        }
        if !was_killed {
            assert!(kill > 20, "only {kill} steps");
            return;
        }
    }
}

#[test]
fn killed_at_every_step_everything_is_put_back_and_nothing_is_lost() {
    kill_at_every_step("7.10.2");
}

#[test]
fn a_change_that_comes_after_its_process_was_killed_is_put_back_too() {
    for late in 0.. {
        let stage = Stage::new("7.10.2", "");
        let before = (stage.settings(), stage.index_settings(OLD));
        let (reindex, source) = (stage.reindex(), stage.source(false));
        let from = stage.cluster.state().changes;
        stage.cluster.state().late_change = Some(from + late);
        let stop = || stage.cluster.state().late.is_some();
        let end = reindex.run(&source, &quiet, &stop);
        let end = end.and_then(|_| reindex.switch(&source, false, &quiet, &stop));
        match end {
            Ok(_) => {
                assert!(late > 4, "only {late} changes");
                return;
            }
            Err(Error::Stopped) => {}
            Err(error) => panic!("{error}"),
        }
        reindex.clean(None, &quiet, &|| false).unwrap();
        if reindex.status().unwrap().done == Step::ALL {
            let index = reindex.rollback(&source, &quiet, &|| false).unwrap();
            assert_eq!(index, OLD);
        }
        stage.cluster.state().make_late_change();
        assert_eq!(stage.settings(), before.0, "change {late}");
        let new = stage.index_settings(NEW);
        assert!(new.is_none() || new == before.1, "change {late}: {new:?}");
        assert_eq!(stage.serving(), [OLD]);
    }
}

#[test]
fn settings_that_are_persistent_are_put_back_too() {
    let stage = Stage::new("8.1.0", "");
    let before = stage.settings();
    let raised = AtomicBool::new(false);
    let observe = |_: &ReindexEvent| {
        let persistent = stage.settings().1;
        raised.fetch_or(persistent[RECOVERY_BYTES] == "500mb", Ordering::Relaxed);
    };
    let reindex = stage.reindex();
    reindex
        .run(&stage.source(false), &observe, &|| false)
        .unwrap();
    assert!(raised.into_inner(), "they were raised meanwhile");
    assert_eq!(stage.settings(), before);
}

#[test]
fn a_setting_that_somebody_else_changed_meanwhile_is_left_alone() {
    let stage = Stage::new("7.10.2", "");
    let reindex = stage.reindex();
    let observe = |event: &ReindexEvent| {
        if let ReindexEvent::Journal(said) = event
            && said.says == "The new index is green."
        {
            let mut state = stage.cluster.state();
            state
                .transient
                .insert(RECOVERY_BYTES.to_owned(), json!("77mb"));
        }
    };
    reindex
        .run(&stage.source(false), &observe, &|| false)
        .unwrap();
    assert_eq!(stage.settings().0[RECOVERY_BYTES], "77mb");
    let journal = std::fs::read_to_string(stage.journal()).unwrap();
    assert!(journal.contains("left alone: indices.recovery.max_bytes_per_sec"));
}

#[test]
fn a_shard_that_began_again_while_it_was_filled_is_filled_once_more() {
    let stage = Stage::new("7.10.2", "");
    stage.cluster.state().dies_after_bulks = Some(2);
    let found = stage.run();
    assert_eq!(found.differences, []);
    assert_eq!(stage.documents(NEW), stage.expected());
    let journal = std::fs::read_to_string(stage.journal()).unwrap();
    assert_eq!(journal.matches("from the begin of the source").count(), 2);
}

#[test]
fn differences_are_found_and_the_switch_needs_force() {
    let stage = Stage::new("7.10.2", "");
    stage.cluster.state().merge_loses = Some("59".to_owned());
    let found = stage.run();
    assert!(found.differences_count > 0, "{found:?}");
    let is_lost = |key: &Option<String>| key.as_deref() == Some("59");
    assert!(
        found
            .differences
            .iter()
            .any(|one| is_lost(&one.key) || one.key.is_none()),
        "{found:?}"
    );
    let (reindex, source) = (stage.reindex(), stage.source(false));
    let error = reindex
        .switch(&source, false, &quiet, &|| false)
        .unwrap_err();
    assert!(error.to_string().contains("not verified"), "{error}");
    assert_eq!(stage.serving(), [OLD]);
    reindex.switch(&source, true, &quiet, &|| false).unwrap();
    assert_eq!(stage.serving(), [NEW]);
}

#[test]
fn cleaning_up_drops_the_index_that_is_not_in_use_and_only_that() {
    let stage = Stage::new("7.10.2", "");
    let (reindex, source) = (stage.reindex(), stage.source(false));
    stage.run();
    assert_eq!(reindex.status().unwrap().done, Step::ALL);
    let dropped = reindex.clean(Some(&source), &quiet, &|| false).unwrap();
    assert_eq!(dropped.as_deref(), Some(NEW));
    assert_eq!(stage.serving(), [OLD]);
    stage.run();
    reindex.switch(&source, false, &quiet, &|| false).unwrap();
    let dropped = reindex.clean(Some(&source), &quiet, &|| false).unwrap();
    assert_eq!(dropped.as_deref(), Some(OLD));
    assert_eq!(stage.serving(), [NEW]);
    // The next one has the next number.
    let plan = reindex.plan(&source).unwrap();
    assert_eq!(
        (plan.old.as_deref(), plan.new.as_str()),
        (Some(NEW), "tracks-000003")
    );
}

#[test]
fn an_alias_that_can_not_move_is_refused_before_anything_is_done() {
    let stage = Stage::new("7.10.2", "");
    let (reindex, source) = (stage.reindex(), stage.source(false));
    {
        let mut state = stage.cluster.state();
        state.indexes.insert("other".to_owned(), Index::default());
        let behind = state.aliases.get_mut("tracks").unwrap();
        behind.insert("other".to_owned(), json!({}));
    }
    let before = stage.cluster.state().changes;
    let error = reindex
        .run(&source, &quiet, &|| false)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("several indexes: other, tracks-000001"),
        "{error}"
    );
    {
        let mut state = stage.cluster.state();
        state.aliases.clear();
        state.indexes.insert("tracks".to_owned(), Index::default());
    }
    let error = reindex
        .run(&source, &quiet, &|| false)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("tracks is an index, and an alias is needed"),
        "{error}"
    );
    assert_eq!(stage.cluster.state().changes, before);
    let error = reindex.rollback(&source, &quiet, &|| false).unwrap_err();
    assert!(error.to_string().contains("quire reindex run"), "{error}");
}

#[test]
fn both_versions_follow_while_they_are_to_and_other_commands_go_between() {
    let stage = Stage::new("7.10.2", "keep_following = true");
    stage.run();
    let (reindex, source) = (stage.reindex(), stage.source(true));
    assert!(reindex.keeps_following());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let following = scope.spawn(|| {
            let stop = || is_over.load(Ordering::Relaxed);
            stage.reindex().follow(&source, &quiet, &stop)
        });
        let wait_for_both = || {
            while [OLD, NEW]
                .iter()
                .any(|index| stage.documents(index) != stage.expected())
            {
                assert!(!following.is_finished(), "it ended by itself");
                thread::sleep(Duration::from_millis(20));
            }
        };
        stage.write(200..230);
        wait_for_both();
        let command = || loop {
            match reindex.switch(&stage.source(false), false, &quiet, &|| false) {
                // The one that follows looks at the journal.
                Err(Error::InUse(_)) => thread::sleep(Duration::from_millis(5)),
                end => return end,
            }
        };
        command().unwrap();
        assert_eq!(stage.serving(), [NEW]);
        stage.write(230..260);
        wait_for_both();
        is_over.store(true, Ordering::Relaxed);
        let end = following.join().unwrap();
        assert!(matches!(end, Err(Error::Stopped)), "{end:?}");
    });
}

#[test]
fn an_alias_that_does_not_move_is_moved_again_after_a_pause() {
    let stage = Stage::new("7.10.2", "");
    stage.run();
    stage.cluster.state().keeps_aliases = true;
    let from = stage.cluster.state().changes;
    let has_waited = AtomicBool::new(false);
    let observe = |event: &ReindexEvent| {
        if matches!(event, ReindexEvent::Waiting { why } if why.contains("alias tracks")) {
            has_waited.store(true, Ordering::Relaxed);
        }
    };
    let stop = || has_waited.load(Ordering::Relaxed) || stage.cluster.state().changes - from > 20;
    let (reindex, source) = (stage.reindex(), stage.source(false));
    let end = reindex.switch(&source, false, &observe, &stop);
    assert!(matches!(end, Err(Error::Stopped)), "{end:?}");
    assert!(has_waited.into_inner(), "no pause before the next attempt");
}

#[test]
fn copies_whose_number_the_cluster_decides_are_waited_for() {
    let stage = Stage::new("7.10.2", "");
    {
        let mut state = stage.cluster.state();
        let old = state.indexes.get_mut(OLD).unwrap();
        let expand = ("index.auto_expand_replicas".to_owned(), json!("0-all"));
        old.settings.extend([expand]);
        state.copies_are_late = 2;
    }
    assert_eq!(stage.run().differences, []);
    assert_eq!(stage.cluster.state().copies_are_late, 0);
}

#[test]
fn a_source_that_is_split_meanwhile_is_reindexed_all_the_same() {
    let stage = Stage::new("7.10.2", "verify_documents = 50");
    // The pipe's position has two partitions, and the run begins with four.
    stage.split();
    stage.write(60..80);
    let events = AtomicU64::new(0);
    let observe = |_: &ReindexEvent| {
        let number = events.fetch_add(1, Ordering::Relaxed);
        if [4, 9, 14].contains(&number) {
            stage.write(90 + number..95 + number);
            stage.split();
            stage.write(93 + number..99 + number);
        }
    };
    let (reindex, source) = (stage.reindex(), stage.source(false));
    let found = reindex.run(&source, &observe, &|| false).unwrap();
    assert_eq!(found.differences, []);
    assert!(found.compared > 0);
    assert!(events.into_inner() > 14, "it was split thrice");
    assert_eq!(stage.documents(NEW), stage.expected());
    reindex.switch(&source, false, &quiet, &|| false).unwrap();
    stage.split();
    stage.write(70..90);
    stage.pipe();
    assert_eq!(stage.documents(NEW), stage.expected());
    assert_eq!(reindex.rollback(&source, &quiet, &|| false).unwrap(), OLD);
    assert_eq!(stage.documents(OLD), stage.expected());
}
