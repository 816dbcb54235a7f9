//! The first documents of a conjunction: with a plan and without one they are the same.

use super::*;
use quire_query::{Filter, field, find};
use std::time::Duration;

/// A number that looks random.
fn random(number: u64) -> u64 {
    number
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(31)
        .wrapping_mul(0xD6E8_FEB8_6659_FD93)
        >> 20
}

/// A file of adverts: some have no price, some no time.
fn adverts(documents: u32) -> FrozenFile {
    let env = SimEnv::new(1);
    write_adverts(&env, FILE, 0..documents, |id| random(id + 7) % 50);
    open(&env, Access::Read).unwrap()
}

/// Writes adverts with these numbers, each in a region.
fn write_adverts(
    env: &Arc<SimEnv>,
    path: &str,
    ids: impl IntoIterator<Item = u32>,
    region: impl Fn(u64) -> u64,
) {
    let fields = [
        FieldSpec::full("added"),
        FieldSpec::filterable("mark"),
        FieldSpec::full("price"),
        FieldSpec::filterable("region"),
        FieldSpec::filterable("seller"),
        FieldSpec::filterable("tags"),
    ];
    let dynamic: Arc<dyn Env> = Arc::<SimEnv>::clone(env);
    dynamic.create_dir_all(Path::new("/d")).unwrap();
    let options = FrozenOptions::default();
    let mut builder = FrozenBuilder::create(dynamic, Path::new(path), &fields, options).unwrap();
    for id in ids.into_iter().map(u64::from) {
        let mut members = vec![format!("\"mark\":\"m{}\"", random(id) % 30)];
        members.push(format!("\"region\":{}", region(id)));
        members.push(format!("\"seller\":{}", random(id + 6) % 700));
        if !random(id + 1).is_multiple_of(10) {
            members.push(format!("\"price\":{}", random(id + 2) % 400));
        }
        if !random(id + 3).is_multiple_of(10) {
            // Many are of the same time.
            members.push(format!("\"added\":{}", random(id + 4) % 500));
        }
        if random(id + 5).is_multiple_of(2) {
            members.push("\"tags\":[1,2]".to_owned());
        }
        let json = format!("{{{}}}", members.join(","));
        let document = Document::from_json(json.as_bytes()).unwrap();
        builder.add(&document, b"").unwrap();
    }
    builder.finish().unwrap();
}

fn filter(number: u64) -> Filter {
    let low = random(number) % 400;
    let price = field("price").between(low, low + 150);
    let mark = field("mark").eq(format!("m{}", random(number + 1) % 31).as_str());
    let region = field("region").eq(random(number + 2) % 51);
    match number % 6 {
        0 => mark.and(price).and(region),
        1 => region.and(field("price").is_in([low, low + 5, low + 9, low + 11])),
        2 => region,
        3 => mark.and(region).and(field("price").gte(low)),
        // Of more values than have codes in a large file.
        4 => region.and(field("seller").lt(350)),
        _ => region.and(mark),
    }
}

#[test]
fn the_first_documents_are_the_same_with_a_plan_and_without() {
    let clock = || Duration::ZERO;
    let planned = Options {
        clock: Some(&clock),
        ..Options::default()
    };
    // Filterable fields have codes in the small file and none in the large one.
    for documents in [900, 3 * 4096 + 100] {
        let file = adverts(documents);
        let mut found = 0;
        for number in 0..200 {
            let added = field("added");
            let order = match number % 2 {
                0 => added.descending(),
                _ => added.ascending(),
            };
            let query = find(filter(number)).order_by(order).skip(number % 3);
            let query = query.limit(1 + number % 12).prepare().unwrap();
            let expected = query.answer(&[&file], &planned).unwrap();
            let answer = query.answer(&[&file], &Options::default()).unwrap();
            assert_eq!(
                answer.hits, expected.hits,
                "{documents} documents, {number}"
            );
            found += answer.hits.len();
        }
        assert!(found > 200, "{found} hits");
    }
}

#[test]
fn few_documents_are_found_without_a_plan_and_many_with_one() {
    let file = adverts(12_000);
    let order = field("added").descending();
    let leaf = |path: &str, value: Value| Leaf {
        path: FieldPath::new(path),
        test: Test::Eq(value),
    };
    let mark = leaf("mark", Value::from("m3"));
    let region = leaf("region", Value::from(3));
    let both = file.top(&[&mark, &region], &order, 10).unwrap();
    assert!(both.is_some_and(|docs| !docs.is_empty()));
    let none = leaf("region", Value::from(51));
    assert_eq!(file.top(&[&mark, &none], &order, 10).unwrap(), Some(vec![]));
    // The newest documents hold the hits sooner.
    assert_eq!(file.top(&[&mark], &order, 1).unwrap(), None);
    // Documents have several tags.
    let tag = leaf("tags", Value::from(1));
    assert_eq!(file.top(&[&region, &tag], &order, 10).unwrap(), None);
    let wrong = field("mark").descending();
    assert_eq!(file.top(&[&mark, &region], &wrong, 10).unwrap(), None);
}

/// A region that is one run of documents, in a file of many: neighbours are compared at once.
#[test]
fn neighbours_are_found_in_a_large_file_as_with_a_plan() {
    let clock = || Duration::ZERO;
    let planned = Options {
        clock: Some(&clock),
        ..Options::default()
    };
    let env = SimEnv::new(1);
    write_adverts(&env, FILE, 0..15_000, |id| id / 300);
    let file = open(&env, Access::Read).unwrap();
    let (mut found, order) = (0, field("added").descending());
    for number in 0..120 {
        let query = find(filter(number)).order_by(order.clone()).limit(7);
        let query = query.prepare().unwrap();
        let expected = query.answer(&[&file], &planned).unwrap();
        let answer = query.answer(&[&file], &Options::default()).unwrap();
        assert_eq!(answer.hits, expected.hits, "{number}");
        found += answer.hits.len();
    }
    assert!(found > 200, "{found} hits");
    let leaf = |path: &str, test| Leaf {
        path: FieldPath::new(path),
        test,
    };
    let region = leaf("region", Test::Eq(Value::from(7)));
    let mark = leaf("mark", Test::Eq(Value::from("m3")));
    let docs = file.top(&[&mark, &region], &order, 300).unwrap().unwrap();
    assert!(docs.len() > 2, "{docs:?}");
    assert!(
        docs.iter().all(|doc| (2_100..2_400).contains(doc)),
        "{docs:?}"
    );
}

/// Files by the hash of the region: one of them has a query's hits, and which is known of all.
#[test]
fn the_first_hits_of_a_folder_are_the_same_with_a_plan_and_without() {
    let clock = || Duration::ZERO;
    let planned = Options {
        clock: Some(&clock),
        ..Options::default()
    };
    let env = SimEnv::new(1);
    let region = |id: u64| random(id + 7) % 50;
    for file in 0..25 {
        let ids = (0..6_000).filter(|id| region(u64::from(*id)) * 7 % 25 == file);
        write_adverts(&env, &format!("/d/{file:02}.quire"), ids, region);
    }
    let dynamic: Arc<dyn Env> = Arc::<SimEnv>::clone(&env);
    let options = crate::FolderOptions::default();
    let folder = crate::FrozenFolder::open(dynamic, Path::new("/d"), options).unwrap();
    let (snapshot, mut found) = (folder.snapshot(), 0);
    for number in 0..240 {
        let added = field("added");
        let order = match number % 2 {
            0 => added.descending(),
            _ => added.ascending(),
        };
        let query = find(filter(number)).order_by(order).skip(number % 3);
        let query = query.limit(1 + number % 12).prepare().unwrap();
        let expected = snapshot.query(&query, &planned).unwrap();
        let answer = snapshot.query(&query, &Options::default()).unwrap();
        assert_eq!(answer.hits, expected.hits, "{number}");
        found += answer.hits.len();
        // Directories are gathered after the first queries.
        env.run_until_idle();
    }
    assert!(found > 200, "{found} hits");
    assert!(snapshot.has_directory("region"));
    let wrong = find(field("region").eq(3));
    let wrong = wrong.order_by(field("mark").descending()).limit(3);
    let answer = snapshot.query(&wrong.prepare().unwrap(), &Options::default());
    assert!(answer.is_err(), "the mark is not sortable");
}
