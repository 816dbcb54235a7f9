//! create, drop, collections, stats and verify; opening what is not there.

use crate::Quire;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[test]
fn collections_are_created_listed_and_dropped() {
    let quire = Quire::new();
    let created = quire.json(&[
        "create",
        "db",
        "products",
        "--key",
        "sku",
        "--partitions",
        "3",
        "--durability",
        "async(200)",
    ]);
    assert_eq!(created["created"], "products");
    assert_eq!(
        (
            &created["settings"]["partitions"],
            &created["settings"]["key_field"]
        ),
        (&json!(3), &json!("sku"))
    );
    assert!(
        quire
            .ok(&["create", "db", "a.b-1"])
            .starts_with("created a.b-1: key field _id")
    );
    quire.fails(&["create", "db", "products"], 1, &["products"]);
    quire.fails(&["create", "db", "Products"], 1, &["Products"]);
    quire.fails(
        &["create", "db", "many", "--partitions", "1025"],
        1,
        &["1024"],
    );
    assert_eq!(quire.ok(&["collections", "db"]), "a.b-1\nproducts\n");
    let listed = quire.ok(&["collections", "db", "--json"]);
    let last: Value = serde_json::from_str(listed.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["name"], &last["settings"]),
        (&json!("products"), &created["settings"])
    );

    assert_eq!(
        quire
            .pipe(&["load", "db", "products"], "{\"sku\":1}\n{\"sku\":2}")
            .code,
        0
    );
    quire.fails(&["drop", "db", "products"], 2, &["2 documents", "--yes"]);
    assert_eq!(
        quire.json(&["drop", "db", "products", "--yes"]),
        json!({"dropped": "products", "documents": 2})
    );
    quire.fails(
        &["count", "db", "products"],
        1,
        &["no collection `products`", "a.b-1"],
    );
    assert_eq!(quire.ok(&["collections", "db"]), "a.b-1\n");
}

#[test]
fn an_alias_is_switched_from_one_collection_to_another() {
    let quire = Quire::new();
    for name in ["papers-1", "papers-2"] {
        quire.ok(&["create", "db", name]);
    }
    let document = "{\"_id\":\"a\",\"of\":2}";
    assert_eq!(quire.pipe(&["load", "db", "papers-2"], document).code, 0);
    let shown = quire.ok(&["alias", "db", "papers", "--add", "papers-1"]);
    assert_eq!(shown, "papers: papers-1\n");
    assert_eq!(quire.ok(&["count", "db", "papers"]).trim(), "0");
    let switch = [
        "alias", "db", "papers", "--add", "papers-2", "--remove", "papers-1",
    ];
    assert_eq!(quire.ok(&switch), "papers: papers-2\n");
    assert!(quire.ok(&["get", "db", "papers", "a"]).contains("\"of\":2"));
    // What is not there changes nothing.
    quire.fails(&switch, 1, &["papers-1"]);
    let both = ["alias", "db", "papers", "--add", "papers-1", "--write"];
    assert_eq!(
        quire.ok(&both),
        "papers: papers-1, takes writes\npapers: papers-2\n"
    );
    quire.fails(&["count", "db", "papers"], 1, &["more than one"]);
    let listed = quire.ok(&["alias", "db", "--json"]);
    let collections = json!({"papers-1": {"is_write_index": true},
        "papers-2": {"is_write_index": false}});
    assert_eq!(
        serde_json::from_str::<Value>(&listed).unwrap(),
        json!({"alias": "papers", "collections": collections})
    );
    quire.fails(&["create", "db", "papers"], 1, &["papers"]);
    quire.fails(&["alias", "db", "--add", "papers-1"], 2, &["ALIAS"]);
}

#[test]
fn stats_show_documents_and_sizes() {
    let documents: String = (0..500)
        .map(|id| format!("{{\"_id\":{id},\"text\":\"some text\"}}\n"))
        .collect();
    let quire = Quire::with_documents(&documents);
    let stats = quire.json(&["stats", "db"]);
    let collection = &stats["collections"][0];
    assert_eq!(
        (&collection["name"], &collection["documents"]),
        (&json!("c"), &json!(500))
    );
    assert!(collection["disk_bytes"].as_u64().unwrap() > 0);
    let table = quire.ok(&["stats", "db"]);
    assert!(table.starts_with("collection"), "{table}");
    assert!(table.lines().nth(1).unwrap().starts_with("c  "), "{table}");
    assert!(table.contains("500"), "{table}");
}

#[test]
fn compact_gives_back_what_was_overwritten_and_deleted() {
    let documents = |round: u32| -> String {
        (0..2_000)
            .map(|id| format!("{{\"_id\":{id},\"text\":\"{:x}\"}}\n", id * 7_919 + round))
            .collect()
    };
    let quire = Quire::with_documents(&documents(0));
    for round in 1..4 {
        let done = quire.pipe(&["load", "db", "c"], documents(round));
        assert_eq!(done.code, 0, "{done:?}");
    }
    quire.ok(&["delete", "db", "c", "7"]);
    let dead = |quire: &Quire| {
        let stats = quire.json(&["stats", "db"]);
        let collection = &stats["collections"][0];
        let figure = |name: &str| collection[name].as_u64().unwrap();
        (figure("log_live_bytes"), figure("log_dead_bytes"))
    };
    let (live, superseded) = dead(&quire);
    assert!(superseded > live * 2, "{superseded} of {live}");
    let done = quire.json(&["compact", "db", "c"]);
    assert!(done["disk_bytes"].as_u64() < done["disk_bytes_before"].as_u64());
    assert_eq!(dead(&quire).1, 0);
    assert!(quire.ok(&["compact", "db"]).starts_with("c: "));
    assert_eq!(quire.ok(&["count", "db", "c"]).trim(), "1999");
    assert!(
        quire
            .ok(&["verify", "db"])
            .starts_with("no damage: 1,999 documents in 1 collection")
    );
}

#[test]
fn verify_names_the_damaged_file() {
    let documents: String = (0..2_000)
        .map(|id| format!("{{\"_id\":{id},\"text\":\"some text {id}\"}}\n"))
        .collect();
    let quire = Quire::with_documents(&documents);
    assert!(
        quire
            .ok(&["verify", "db"])
            .starts_with("no damage: 2,000 documents in 1 collection")
    );
    assert_eq!(quire.json(&["verify", "db"])["damage"], json!([]));

    let file = largest_file(&quire.path("db"));
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    let done = quire.run(&["verify", "db"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(
        done.stdout.contains(name) && done.stdout.contains("lost: "),
        "{name}: {}",
        done.stdout
    );
    let done = quire.run(&["verify", "db", "--json"]);
    assert_eq!(done.code, 1);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    let damage = &report["damage"][0];
    assert!(damage["file"].as_str().unwrap().contains(name), "{report}");
    assert!(
        damage["offset"].is_u64() && damage["what"].is_string() && damage["lost"].is_string(),
        "{report}"
    );
}

fn largest_file(directory: &Path) -> PathBuf {
    let mut largest = (0, PathBuf::new());
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                directories.push(entry.path());
            } else if metadata.len() > largest.0 {
                largest = (metadata.len(), entry.path());
            }
        }
    }
    largest.1
}

#[test]
fn commands_that_read_make_no_database() {
    let quire = Quire::new();
    let commands: [&[&str]; 9] = [
        &["get", "db", "c", "k"],
        &["put", "db", "c", "k", "{}"],
        &["delete", "db", "c", "k"],
        &["scan", "db", "c"],
        &["count", "db", "c"],
        &["tail", "db", "c"],
        &["collections", "db"],
        &["stats", "db"],
        &["verify", "db"],
    ];
    for command in commands {
        quire.fails(command, 1, &["no database at db", "quire load"]);
    }
    assert!(!quire.path("db").exists());
}

#[test]
fn foreign_directories_are_left_alone() {
    let quire = Quire::new();
    std::fs::create_dir(quire.path("photos")).unwrap();
    quire.file("photos/cat.jpg", "meow");
    for command in [
        &["count", "photos", "c"][..],
        &["load", "photos", "c"],
        &["create", "photos", "c"],
        &["verify", "photos"],
    ] {
        quire.fails(command, 1, &["photos"]);
    }
    let names: Vec<_> = std::fs::read_dir(quire.path("photos"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["cat.jpg"]);
}

#[test]
fn unknown_collections_are_answered_with_those_there_are() {
    let quire = Quire::with_documents("{\"_id\":1}");
    quire.ok(&["create", "db", "other"]);
    for command in [
        &["get", "db", "nope", "1"][..],
        &["put", "db", "nope", "{}"],
        &["scan", "db", "nope"],
        &["drop", "db", "nope", "--yes"],
    ] {
        quire.fails(command, 1, &["no collection `nope` in db", "c, other"]);
    }
}

#[test]
fn wrong_command_lines_end_with_2_and_help_with_0() {
    let quire = Quire::new();
    for arguments in [
        &[][..],
        &["fetch"],
        &["get", "db"],
        &["get", "db", "c"],
        &["count", "db", "c", "--frob"],
    ] {
        assert_eq!(quire.run(arguments).code, 2, "{arguments:?}");
    }
    assert!(quire.ok(&["--version"]).starts_with("quire 0."));
    let commands = [
        "load",
        "get",
        "put",
        "delete",
        "scan",
        "count",
        "query",
        "freeze",
        "inspect",
        "tail",
        "collections",
        "create",
        "drop",
        "stats",
        "compact",
        "verify",
        "serve",
        "demo",
    ];
    let overview = quire.ok(&["--help"]);
    for command in commands {
        assert!(overview.contains(command));
        let help = quire.ok(&[command, "--help"]);
        assert!(
            help.contains("Example") && help.contains("--json"),
            "{help}"
        );
    }
}

#[test]
fn shells_are_given_scripts_that_complete_commands() {
    let quire = Quire::new();
    for (shell, words) in [
        ("bash", ["complete -F", "--on-error"]),
        ("zsh", ["#compdef quire", "--on-error"]),
        ("fish", ["complete -c quire", "on-error"]),
    ] {
        let script = quire.ok(&["completions", shell]);
        for word in words {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let script = quire.file("quire.bash", quire.ok(&["completions", "bash"]));
    let parsed = std::process::Command::new("bash")
        .arg("-n")
        .arg(script)
        .status();
    assert!(parsed.unwrap().success());
    quire.fails(&["completions", "cmd.exe"], 2, &["bash", "zsh"]);
}
