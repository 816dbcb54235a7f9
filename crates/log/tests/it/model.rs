//! Any operations under any options: the log agrees with a vector.

use crate::support::*;
use proptest::collection::vec;
use proptest::prelude::*;
use quire_env::SimEnv;
use quire_log::{Codec, ErrorKind, LogOptions};
use quire_model::Position;

#[derive(Debug, Clone)]
enum Op {
    Append(Vec<Vec<u8>>),
    Sync,
    Read(prop::sample::Index),
    ReadMany(Vec<prop::sample::Index>),
    Scan(prop::sample::Index, prop::sample::Index),
    DropBefore(prop::sample::Index),
    /// Settings that hold from the next segment on.
    SetBlocks(usize, Codec),
    Train,
    /// Close, and open with options that may differ.
    Reopen(Option<LogOptions>),
    /// Open without a close: only what was never written is lost, as the machine keeps running.
    Abandon,
}

fn any_record() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(any::<u8>(), 0..50),
        2 => (any::<u8>(), 0_usize..600).prop_map(|(byte, length)| vec![byte; length]),
        1 => vec(any::<u8>(), 0..600),
    ]
}

fn any_codec() -> impl Strategy<Value = Codec> {
    prop_oneof![
        Just(Codec::None),
        Just(Codec::Lz4),
        (1_u8..6, prop_oneof![Just(0_u32), 256..600_u32]).prop_map(|(level, dictionary_bytes)| {
            Codec::Zstd {
                level,
                dictionary_bytes,
            }
        }),
    ]
}

fn any_options() -> impl Strategy<Value = LogOptions> {
    (
        1_usize..800,
        1_u64..4000,
        any_codec(),
        0_usize..2000,
        0_u64..3000,
        any::<bool>(),
    )
        .prop_map(
            |(
                block_bytes,
                segment_bytes,
                codec,
                pending_bytes_max,
                reserve_bytes,
                rotate_unsynced,
            )| {
                LogOptions {
                    block_bytes,
                    segment_bytes,
                    codec,
                    pending_bytes_max,
                    reserve_bytes,
                    rotate_unsynced,
                    obsolete_bytes_kept: 0,
                }
            },
        )
}

fn any_op() -> impl Strategy<Value = Op> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        12 => vec(any_record(), 1..5).prop_map(Op::Append),
        4 => Just(Op::Sync),
        4 => index().prop_map(Op::Read),
        1 => vec(index(), 0..10).prop_map(Op::ReadMany),
        2 => (index(), index()).prop_map(|(from, to)| Op::Scan(from, to)),
        1 => index().prop_map(Op::DropBefore),
        1 => (1_usize..800, any_codec())
            .prop_map(|(block_bytes, codec)| Op::SetBlocks(block_bytes, codec)),
        2 => Just(Op::Train),
        1 => proptest::option::of(any_options()).prop_map(Op::Reopen),
        1 => Just(Op::Abandon),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn log_agrees_with_a_vector(ops in vec(any_op(), 1..60), options in any_options()) {
        let env = SimEnv::new(1);
        let mut options = options;
        let (mut log, _) = open_with(&env, options.clone()).unwrap();
        // records[n] is at position n + 1; those before `first` are dropped.
        let mut records: Vec<Vec<u8>> = Vec::new();
        let mut synced = 0;
        for op in ops {
            let first = log.first().0;
            let last = records.len() as u64;
            // A position of the log, or next to it.
            let position =
                |index: prop::sample::Index| Position(index.index(records.len() + 2) as u64);
            let expected = |position: Position| match position.0 {
                0 => Err(ErrorKind::NotFound),
                at if at > last => Err(ErrorKind::NotFound),
                at if at < first => Err(ErrorKind::Dropped),
                at => Ok(records[at as usize - 1].clone()),
            };
            match op {
                Op::Append(group) => {
                    match group.as_slice() {
                        [record] if last.is_multiple_of(2) => {
                            let (position, appended) = log.append_owned(record.clone()).unwrap();
                            prop_assert_eq!(position, Position(last + 1));
                            prop_assert_eq!(&appended, record);
                        }
                        group => {
                            let slices: Vec<&[u8]> = group.iter().map(Vec::as_slice).collect();
                            prop_assert_eq!(log.append(&slices).unwrap(), Position(last + 1));
                        }
                    }
                    records.extend(group);
                }
                Op::Sync => {
                    match last % 3 {
                        0 => prop_assert_eq!(log.sync(Position(last)).unwrap(), Position(last)),
                        1 => {
                            let synced = log.sync_aside(Position(last)).unwrap();
                            prop_assert_eq!(synced, Position(last));
                        }
                        _ => log.write_back().unwrap(),
                    }
                    if !(options.rotate_unsynced && last % 3 == 2) {
                        prop_assert_eq!(log.durable(), Position(last));
                        synced = last;
                    }
                }
                Op::Read(index) => {
                    let found = log.read(position(index)).map(|found| found.to_vec());
                    let found = found.map_err(|error| error.kind());
                    prop_assert_eq!(found, expected(position(index)));
                }
                Op::ReadMany(indexes) => {
                    let positions: Vec<Position> = indexes.into_iter().map(position).collect();
                    let wanted = positions.iter().copied().map(expected);
                    let wanted: Result<Vec<_>, _> = wanted.collect();
                    match (log.read_many(&positions), wanted) {
                        (Ok(found), Ok(wanted)) => prop_assert_eq!(found, wanted),
                        (Err(_), Err(_)) => {}
                        (found, wanted) => prop_assert!(false, "{:?} is not {:?}", found, wanted),
                    }
                }
                Op::Scan(from, to) => {
                    let (from, to) = (position(from).max(Position(first)), position(to));
                    let found = log.scan(from).until(to).map(|item| item.unwrap());
                    let found: Vec<_> = found.collect();
                    let wanted: Vec<_> = (from.0..=to.0.min(last)).map(Position).collect();
                    prop_assert_eq!(found.len(), wanted.len());
                    for ((position, found), wanted) in found.into_iter().zip(wanted) {
                        prop_assert_eq!(position, wanted);
                        prop_assert_eq!(&found, &records[wanted.0 as usize - 1]);
                    }
                }
                Op::DropBefore(index) => {
                    log.drop_before(position(index)).unwrap();
                    prop_assert!(log.first() >= Position(first));
                    prop_assert!(log.first() <= position(index).max(Position(first)));
                }
                Op::SetBlocks(block_bytes, codec) => log.set_blocks(block_bytes, codec).unwrap(),
                Op::Train => {
                    log.train_dictionary().unwrap();
                }
                Op::Reopen(new_options) => {
                    log.close().unwrap();
                    let (summary, damages) = verify_all(&env);
                    prop_assert_eq!(damages, vec![]);
                    prop_assert_eq!((summary.last.0, summary.torn_bytes), (last, 0));
                    let was_unsynced = options.rotate_unsynced;
                    options = new_options.unwrap_or(options);
                    let recovery;
                    (log, recovery) = open_with(&env, options.clone()).unwrap();
                    prop_assert_eq!((recovery.last.0, recovery.torn_bytes), (last, 0));
                    prop_assert!(was_unsynced || recovery.footers_rebuilt == 0);
                    synced = last;
                }
                Op::Abandon => {
                    drop(log);
                    (log, _) = open_with(&env, options.clone()).unwrap();
                    let kept = log.last().0;
                    prop_assert!(kept >= synced && kept <= last);
                    records.truncate(kept as usize);
                    synced = kept;
                }
            }
            prop_assert_eq!(log.last(), Position(records.len() as u64));
            prop_assert!(log.durable() >= Position(synced) && log.durable() <= log.last());
        }
        for at in log.first().0..=records.len() as u64 {
            prop_assert_eq!(&log.read(Position(at)).unwrap(), &records[at as usize - 1]);
        }
    }
}
