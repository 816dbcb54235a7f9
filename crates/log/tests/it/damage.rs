//! Damaged, cut, missing, duplicated and foreign files: the right bytes or an error, never silence.

use crate::support::*;
use quire_env::{Env, SimEnv};
use quire_log::{Codec, Error, ErrorKind, Log, LogOptions};
use quire_model::Position;
use std::path::PathBuf;
use std::sync::Arc;

/// A machine with a log of `last` records, a block each, that was closed or not.
fn machine(last: u64, closed: bool) -> Arc<SimEnv> {
    let env = SimEnv::new(last);
    let (log, _) = open(&env).unwrap();
    append_synced(&log, last);
    if closed {
        log.close().unwrap();
    }
    env
}

/// Reads everything: each record is right, or an error of kind `Corrupt` that names a file. Returns
/// the number of right records.
fn right_records(log: &Log) -> u64 {
    let mut right = 0;
    for position in log.first().0..=log.last().0 {
        match log.read(Position(position)) {
            Ok(found) => {
                assert_eq!(found, record(position), "position {position}");
                right += 1;
            }
            Err(error) => {
                assert!(
                    matches!(&error, Error::Corrupt { positions: Some((first, last)), .. }
                    if first.0 <= position && position <= last.0),
                    "{error}"
                );
            }
        }
    }
    for item in log.scan(log.first()) {
        match item {
            Ok((position, found)) => assert_eq!(found, record(position.0)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt),
        }
    }
    right
}

/// Removes the end-of-log record: what was synced since the last block is not known then.
fn forget_the_end(env: &SimEnv) {
    env.remove(&dir().join("END")).unwrap();
}

/// Positions that a verification says are lost.
fn lost(env: &Arc<SimEnv>) -> u64 {
    verify_all(env)
        .1
        .iter()
        .filter_map(|damage| damage.lost)
        .map(|(first, last)| last.0 - first.0 + 1)
        .sum()
}

#[test]
fn any_flipped_bit_is_found_and_never_served() {
    in_both_codecs(|| {
        const LAST: u64 = 25;
        for closed in [true, false] {
            let template = machine(LAST, closed);
            let files = segments(&template);
            assert!(files.len() >= 3, "several segments");
            for (number, path) in files.iter().enumerate() {
                // A crash leaves torn bytes in the footer before the newest segment. What it leaves
                // in that is told from damage by the end-of-log record.
                let may_be_torn = !closed && number + 2 == files.len();
                let length = template.read_all(path).unwrap().len() as u64;
                for byte in 0..length {
                    let env = template.after_crash(0); // all is synced: a copy
                    env.flip_bit(path, byte * 8 + byte % 8).unwrap();
                    let at = format!(
                        "closed {closed}, byte {byte} of {length} of {}",
                        path.display()
                    );

                    let (summary, damages) = verify_all(&env);
                    let found = damages.iter().any(|damage| damage.path == *path);
                    assert!(
                        found || (may_be_torn && summary.torn_bytes > 0),
                        "{at}: {summary:?} {damages:?}"
                    );
                    // Without its dictionary a segment's blocks can't be read, unless another
                    // segment has the same one.
                    let of_dictionary = is_of_dictionary(&template, path, byte);
                    let last_offset = damages
                        .iter()
                        .filter(|damage| damage.path == *path)
                        .all(|d| d.offset <= byte);
                    assert!(last_offset || of_dictionary, "{at}: {damages:?}");
                    let lost = lost(&env);
                    assert!(lost <= 1 || of_dictionary, "{at}: {damages:?}");

                    match open(&env) {
                        Ok((log, recovery)) => {
                            let right = right_records(&log);
                            assert_eq!(recovery.last, Position(LAST), "{at}: {recovery:?}");
                            assert!(
                                right >= recovery.last.0 - 1 || of_dictionary,
                                "{at}: one block lost, the others served"
                            );
                            if lost == 0 {
                                assert_eq!(right, recovery.last.0, "{at}");
                            }
                            if log.append(&[&record(LAST + 1)]).is_ok() {
                                log.close().unwrap();
                                let right = right_records(&log);
                                assert!(right >= LAST || of_dictionary, "{at}");
                            }
                        }
                        Err(Error::Corrupt { path: named, .. }) => assert_eq!(named, *path, "{at}"),
                        Err(error) => panic!("{at}: {error}"),
                    }
                }
            }
        }
    });
}

#[test]
fn a_file_cut_at_any_length_is_found_unless_it_is_the_newest() {
    in_both_codecs(|| {
        const LAST: u64 = 25;
        for closed in [true, false] {
            let template = machine(LAST, closed);
            let files = segments(&template);
            for (number, path) in files.iter().enumerate() {
                let newest = number + 1 == files.len();
                let length = template.read_all(path).unwrap().len() as u64;
                let mut silent = 0;
                for cut in 0..length {
                    let env = template.after_crash(0);
                    env.truncate_file(path, cut).unwrap();
                    let at = format!(
                        "closed {closed}, cut at {cut} of {length} of {}",
                        path.display()
                    );
                    let (summary, damages) = verify_all(&env);
                    silent += u32::from(damages.is_empty() && summary.torn_bytes == 0);
                    match open(&env) {
                        Ok((log, recovery)) => {
                            assert!(newest || recovery.last == Position(LAST), "{at}");
                            assert!(newest || recovery.footers_rebuilt == 1, "{at}");
                            check_all(&log);
                            append_synced(&log, LAST + 3);
                            check_all(&log);
                        }
                        Err(Error::Corrupt { path: named, .. }) => assert_eq!(named, *path, "{at}"),
                        Err(error) => panic!("{at}: {error}"),
                    }
                }
                assert!(
                    newest || silent <= 1,
                    "{silent} cuts not found; one leaves the blocks whole, and no footer"
                );
            }
        }
    });
}

#[test]
fn what_recovery_kept_once_is_never_taken_for_a_torn_tail() {
    in_both_codecs(|| {
        let template = machine(5, false);
        // Recovery has carried the last block over, and nothing came after it.
        drop(open(&template).unwrap());
        for path in segments(&template) {
            for byte in 0..template.read_all(&path).unwrap().len() as u64 {
                let env = template.after_crash(0);
                env.flip_bit(&path, byte * 8).unwrap();
                if let Ok((log, _)) = open(&env) {
                    assert_eq!(log.last(), Position(5), "byte {byte} of {}", path.display());
                }
            }
        }
    });
}

#[test]
fn missing_renamed_and_duplicated_segments_are_refused_and_named() {
    in_both_codecs(|| {
        let template = machine(40, true);
        let files = segments(&template);
        let copy = |env: &SimEnv, from: &PathBuf, to: &PathBuf| {
            let bytes = env.read_all(from).unwrap();
            env.replace(to, &bytes).unwrap();
        };
        let refused = |env: &Arc<SimEnv>| {
            let Err(Error::Corrupt { path, what, .. }) = open(env) else {
                panic!("opened")
            };
            let (_, damages) = verify_all(env);
            assert!(!damages.is_empty(), "{what}");
            (path, damages)
        };

        let env = template.after_crash(0);
        env.remove(&files[1]).unwrap();
        let (path, damages) = refused(&env);
        assert_eq!(path, files[0]);
        assert!(
            damages.len() == 1 && damages[0].path == files[2],
            "{damages:?}"
        );
        let (first, last) = damages[0].lost.unwrap();
        assert_eq!(dir().join(format!("{:020}.log", first.0)), files[1]);
        assert_eq!(dir().join(format!("{:020}.log", last.0 + 1)), files[2]);

        let env = template.after_crash(0);
        copy(&env, &files[0], &files[1]);
        assert_eq!(refused(&env).0, files[1]);

        let env = template.after_crash(0);
        copy(&env, &files[1], &dir().join("00000000000000000003.log"));
        refused(&env);

        let env = template.after_crash(0);
        let odd = dir().join("00000000000000000001 (copy).log");
        copy(&env, &files[0], &odd);
        assert_eq!(refused(&env).0, odd);

        let env = template.after_crash(0);
        copy(&env, &files[0], &dir().join("notes.txt"));
        check_all(&open(&env).unwrap().0);
    });
}

#[test]
fn a_damaged_dictionary_costs_nothing_where_another_segment_holds_the_same() {
    let options = LogOptions {
        codec: DICTIONARY,
        ..tiny()
    };
    let template = SimEnv::new(1);
    let (log, _) = open_with(&template, options.clone()).unwrap();
    append_synced(&log, 90);
    log.close().unwrap();
    drop(log);
    let files = segments(&template);
    let with_dictionary = files
        .iter()
        .filter(|path| is_of_dictionary(&template, path, 48));
    let with_dictionary: Vec<_> = with_dictionary.collect();
    assert!(with_dictionary.len() > 3, "{files:?}");
    let [first, .., last] = with_dictionary.as_slice() else {
        panic!("{files:?}")
    };
    for byte in (96..).take_while(|byte| is_of_dictionary(&template, first, *byte)) {
        let env = template.after_crash(0);
        env.flip_bit(first, byte * 8).unwrap();
        let (_, damages) = verify_all(&env);
        assert_eq!(damages.len(), 1, "{damages:?}");
        assert_eq!((&damages[0].path, damages[0].lost), (*first, None));
        let (log, _) = open_with(&env, options.clone()).unwrap();
        // The other one is in memory then.
        let base = last.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        assert_eq!(log.read(Position(base)).unwrap(), record(base));
        check_all(&log);
        // A damaged segment is not copied.
        let mut copies = log.copies(log.last()).unwrap().into_iter();
        let copy = copies.find(|copy| copy.path() == first.as_path()).unwrap();
        let error = copy.pieces(0, copy.bytes()).find_map(Result::err).unwrap();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {byte}");
    }
}

#[test]
fn blocks_of_every_codec_lie_in_one_log_and_only_zstd_needs_a_new_version() {
    let env = SimEnv::new(1);
    let (log, _) = open(&env).unwrap();
    let codecs = [(Codec::None, 1), (DICTIONARY, 3), (Codec::Lz4, 1)];
    let mut versions = vec![1];
    for (codec, version) in codecs.repeat(2) {
        append_synced(&log, log.last().0 + 4);
        log.set_blocks(200, codec).unwrap();
        log.rotate().unwrap();
        versions.push(version);
    }
    append_synced(&log, log.last().0 + 4);
    check_all(&log);
    let version = |path: &PathBuf| env.read_all(path).unwrap()[8];
    let found: Vec<_> = segments(&env).iter().map(version).collect();
    assert_eq!(found, versions);
    // Rewritten, all are as the settings say now.
    log.rotate().unwrap();
    let mut all = |records: &[_]| quire_log::Result::Ok(vec![true; records.len()]);
    log.set_blocks(200, DICTIONARY).unwrap();
    let next = log.last().next();
    log.compact(Position(1), next, &mut all, &room, &|| false)
        .unwrap();
    check_all(&log);
    log.close().unwrap();
    assert_eq!(version(&segments(&env)[0]), 4);
    assert_eq!(verify_all(&env).1, []);
}

#[test]
fn a_newer_format_is_named_as_such() {
    let env = machine(3, true);
    let path = &segments(&env)[0];
    let mut header = env.read_all(path).unwrap()[..48].to_vec();
    header[8] = 7;
    // CRC-32C of the changed header, worked out bit by bit so that the test needs no library.
    let crc = !header[..44].iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82F6_3B78 * (crc & 1))
        })
    });
    header[44..].copy_from_slice(&crc.to_le_bytes());
    env.overwrite(path, 0, &header).unwrap();
    assert!(matches!(
        open(&env),
        Err(Error::UnsupportedVersion { found: 7, .. })
    ));
    assert_eq!(verify_all(&env).1.len(), 1);
}

#[test]
fn garbage_and_zeros_after_the_last_block_are_a_torn_tail() {
    for tail in [
        vec![0; 5000],
        vec![0xB1; 700],
        b"\xB1QL\x0C".repeat(50),
        vec![7],
    ] {
        let env = machine(6, false);
        let path = segments(&env).pop().unwrap();
        let mut file = env.open_append(&path).unwrap();
        file.append(&tail).unwrap();
        file.sync().unwrap();
        let (summary, damages) = verify_all(&env);
        assert_eq!((summary.torn_bytes, damages.len()), (tail.len() as u64, 0));
        let (log, recovery) = open(&env).unwrap();
        assert_eq!(
            (recovery.last, recovery.torn_bytes),
            (Position(6), tail.len() as u64)
        );
        append_synced(&log, 12);
        check_all(&log);
    }
}

#[test]
fn a_block_inside_a_record_is_never_taken_for_one_of_the_log() {
    // A whole segment file as a record, stored uncompressed, in a log with a torn tail after it.
    let inner = machine(8, false);
    let bytes = inner.read_all(&segments(&inner)[0]).unwrap();
    let env = SimEnv::new(1);
    let options = quire_log::LogOptions {
        codec: quire_log::Codec::None,
        ..quire_log::LogOptions::default()
    };
    let (log, _) = open_with(&env, options.clone()).unwrap();
    log.append(&[b"before"]).unwrap();
    log.sync(log.last()).unwrap();
    log.append(&[&bytes]).unwrap();
    log.sync(log.last()).unwrap();
    drop(log);
    // The header of the torn block is lost: everything that could prove it durable is inside the
    // record.
    forget_the_end(&env);
    let path = segments(&env).pop().unwrap();
    let header_of_second = env.read_all(&path).unwrap().len() as u64 - bytes.len() as u64 - 8 - 48;
    env.flip_bit(&path, header_of_second * 8).unwrap();
    let (log, recovery) = open_with(&env, options).unwrap();
    assert_eq!(recovery.last, Position(1));
    assert_eq!(log.read(Position(1)).unwrap(), b"before".as_slice());
}

#[test]
fn a_group_of_many_blocks_that_was_cut_short_is_dropped_whole() {
    // A short group, then one that continues through several blocks, then another short one in the
    // last of them.
    let machine = SimEnv::new(1);
    let (log, _) = open(&machine).unwrap();
    append(&log, 2).unwrap();
    append(&log, 9).unwrap();
    append(&log, 1).unwrap();
    log.sync(log.last()).unwrap();
    assert!(log.stats().blocks >= 4);
    drop(log);
    let path = segments(&machine).pop().unwrap();
    let length = machine.read_all(&path).unwrap().len() as u64;
    let mut lasts = std::collections::BTreeSet::new();
    for cut in 48..=length {
        let env = machine.after_crash(1);
        env.truncate_file(&path, cut).unwrap();
        forget_the_end(&env);
        let (summary, damages) = verify_all(&env);
        assert_eq!(damages, [], "cut at {cut}");
        let (log, recovery) = open(&env).unwrap();
        assert_eq!(
            (summary.last, summary.torn_bytes),
            (recovery.last, recovery.torn_bytes),
            "cut at {cut}"
        );
        assert_eq!(summary.records, recovery.last.0, "cut at {cut}");
        check_all(&log);
        lasts.insert(recovery.last.0);
        append_synced(&log, 15);
        check_all(&log);
    }
    assert!(
        lasts.is_subset(&[0, 2, 11, 12].into()),
        "groups are whole or not there: {lasts:?}"
    );
    assert!(lasts.contains(&2) && lasts.contains(&12));
}

#[test]
fn damage_to_the_end_of_log_record_costs_nothing_and_a_lost_one_is_named() {
    let template = machine(9, false);
    let path = dir().join("END");
    let length = template.read_all(&path).unwrap().len() as u64;
    for byte in (0..64).chain(4096..4160).chain([length - 1]) {
        let env = template.after_crash(0);
        env.flip_bit(&path, byte * 8 + byte % 8).unwrap();
        assert_eq!(
            verify_all(&env).1,
            [],
            "byte {byte}: the other slot is whole"
        );
        check_all(&open(&env).unwrap().0);
    }
    let env = template.after_crash(0);
    env.flip_bit(&path, 1).unwrap();
    env.flip_bit(&path, 4096 * 8 + 1).unwrap();
    let (_, damages) = verify_all(&env);
    assert!(damages.len() == 1 && damages[0].path == path, "{damages:?}");
    let (log, recovery) = open(&env).unwrap();
    assert_eq!(recovery.last, Position(9));
    append_synced(&log, 12);
    drop(log);
    assert_eq!(verify_all(&env).1, [], "the first append makes it anew");
}
