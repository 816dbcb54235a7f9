//! `quire volume` on directories.

use super::Quire;

#[test]
fn a_lost_disk_is_named_and_replaced_from_a_backup() {
    let quire = Quire::new();
    quire.ok(&["create", "shop", "--volume", "cold=disk1/shop:hdd"]);
    let schema = r#"{"properties": {"title": {"type": "string"},
        "html": {"type": "string", "group": "cold"}}, "groups": {"cold": {"tier": "hdd"}}}"#;
    quire.file("pages.json", schema);
    quire.ok(&[
        "create",
        "shop",
        "pages",
        "--wide",
        "--schema",
        "pages.json",
    ]);
    for n in 0..20 {
        let row = format!(r#"{{"_id":"{n}","title":"t{n}","html":"h{n}"}}"#);
        quire.ok(&["put", "shop", "pages", &row]);
    }
    quire.ok(&["compact", "shop", "pages"]);
    quire.ok(&["backup", "shop", "backups"]);
    let whole = quire.ok(&["volume", "replace", "--help"]);
    assert!(whole.contains("--dry-run"), "{whole}");
    quire.fails(
        &["volume", "replace", "shop", "--from", "backups"],
        1,
        &["no volume of the database is lost"],
    );

    std::fs::rename(quire.path("disk1"), quire.path("dead")).unwrap();
    assert!(quire.ok(&["volume", "list", "shop"]).contains("lost"));
    quire.fails(&["get", "shop", "pages", "7"], 1, &["cold", "is lost"]);
    let arguments = ["volume", "replace", "shop", "--from", "backups"];
    let planned = quire.ok(&[&arguments[..], &["--dry-run"]].concat());
    assert!(planned.contains("pages partition 0: "), "{planned}");
    assert!(
        planned.contains("volume cold would be replaced"),
        "{planned}"
    );
    assert!(!quire.path("disk1").exists());

    let moved = [&arguments[..], &["--volume", "cold=disk2/shop"]].concat();
    let report = quire.json(&moved);
    assert_eq!(report["volumes"][0]["name"], "cold");
    assert_eq!(report["snapshot"]["number"], 1);
    assert!(
        report["partitions"][0]["lost_tables"].as_u64() > Some(0),
        "{report}"
    );
    let list = quire.ok(&["volume", "list", "shop"]);
    assert!(list.contains("disk2") && !list.contains("lost"), "{list}");
    assert!(quire.ok(&["get", "shop", "pages", "7"]).contains("h7"));
    quire.ok(&["verify", "shop"]);
    let rows = quire.ok(&["scan", "shop", "pages", "--columns", "title,html"]);
    assert_eq!(rows.lines().count(), 20);
}
