//! What lies in a directory is told: documents, keys and values, or something else.

use quiredb::operations::{VerifyOptions, verify};
use quiredb::{Database, DatabaseBuilder, Env, ErrorKind, SimEnv, Volumes};

#[test]
fn documents_and_keys_and_values_are_told_apart() {
    let env = SimEnv::new(1);
    let documents = Database::builder("/db").env(env.clone()).open().unwrap();
    documents.close().unwrap();
    let open_kv = |path: &str| quiredb::kv::Kv::open_on(env.clone(), path, Default::default());
    let error = open_kv("/db").unwrap_err();
    assert!(error.to_string().contains("documents"), "{error}");
    drop(open_kv("/kv").unwrap());
    let volumes = Volumes::single("/kv");
    let error = DatabaseBuilder::on(&volumes)
        .env(env.clone())
        .open()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("quiredb::kv"), "{error}");
    // Both are verified alike.
    let verified = || {
        verify(
            env.clone(),
            volumes.clone(),
            &VerifyOptions::default(),
            &mut |_, _| {},
        )
    };
    let open = open_kv("/kv").unwrap();
    assert_eq!(verified().unwrap_err().kind(), ErrorKind::Locked);
    open.put(b"key", &[7; 100]).unwrap();
    open.flush().unwrap();
    open.close().unwrap();
    let whole = verified().unwrap();
    assert!(whole.damage.is_empty() && whole.files > 1 && whole.bytes > 100);
    let files = env.files().into_iter();
    let mut tables =
        files.filter(|file| file.starts_with("/kv") && file.to_string_lossy().ends_with(".table"));
    env.remove(&tables.next().unwrap()).unwrap();
    assert_eq!(
        verified().unwrap().damage[0].lost,
        "the keys and values that it has"
    );
}
