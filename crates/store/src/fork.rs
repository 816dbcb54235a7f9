//! Forking: the needed records of a store, dealt out, are the logs of new stores.
//!
//! A new store begins with a log and no trees: its opening applies the whole log. So the trees are
//! made by the one way in which trees are ever made, and what a record says in the new store may
//! differ from what it said in the old one (the number of a document, say).
//!
//! # Invariants
//! 1. What is needed is judged by the trees at one position, at or after the last record that is
//!    dealt out. So a record that is left out was superseded by one that is dealt out, or comes
//!    later.
//! 2. The forked store is only read. What is written to it meanwhile, and after the position up to
//!    which it was forked, is the caller's to bring over.

use crate::{Error, Machine, Place, Result, Shared, Store, StoreOptions};
use bytes::Bytes;
use quire_log::{Dealt, ForkTarget, Log, LogIdentity};
use quire_model::Position;

/// Where a new store is to be, and how its log is made.
#[derive(Debug, Clone)]
pub struct ForkPlace {
    /// Where: there is none.
    pub place: Place,
    /// As what it is opened later.
    pub options: StoreOptions,
}

impl ForkPlace {
    fn target(&self) -> ForkTarget {
        ForkTarget {
            dir: self.place.log_dir(),
            identity: LogIdentity(self.place.identity),
            options: self.options.log.clone(),
        }
    }
}

/// Says which new store gets a record, and what it is there; `None` if none gets it.
type DealOne<'a, E> = &'a mut dyn FnMut(Position, &Bytes) -> std::result::Result<Option<Dealt>, E>;

/// Why a fork ended early.
enum Failed<E> {
    Log(quire_log::Error),
    Deal(E),
}

impl<E> From<quire_log::Error> for Failed<E> {
    fn from(error: quire_log::Error) -> Failed<E> {
        Failed::Log(error)
    }
}

impl<M: Machine> Store<M> {
    /// Makes a store whose log has one record, at this position, and none before it. Durable when
    /// this returns.
    ///
    /// # Errors
    /// `Exists` if there is one; `Full` or `Io`.
    pub fn create_after(
        shared: &Shared,
        place: &ForkPlace,
        position: Position,
        record: &[u8],
    ) -> Result<()> {
        Store::<M>::create(shared, &place.place)?;
        let (env, cache) = (shared.env(), shared.cache());
        Log::create_at(env, cache, &place.target(), position, record)?;
        Ok(())
    }

    /// Which of these records, all of them visible, are needed now: nothing supersedes them.
    ///
    /// # Errors
    /// `Corrupt` for a damaged record or tree.
    pub fn needed(&self, records: &[(Position, Bytes)]) -> Result<Vec<bool>> {
        let first = records.first().map_or(Position(0), |(first, _)| *first);
        let trees = self.inner.base_view()?.trees;
        M::needed(records, &trees).map_err(|error| error.at(&self.inner.dir, first))
    }

    /// Makes stores of the needed records so far: each goes to the one that `deal` says, under its
    /// position; they are given in their order. A store that does not get the last of them has the
    /// record `held` there. False if `stop`, which is called now and then, returned true.
    ///
    /// # Errors
    /// What `deal` returned; `Corrupt` for a damaged record; `Full` or `Io`. What was made of the
    /// new stores is then of no use. `Exists` if there is one.
    pub fn fork<E: From<Error>>(
        &self,
        places: &[ForkPlace],
        deal: DealOne<'_, E>,
        held: &[u8],
        stop: &dyn Fn() -> bool,
    ) -> std::result::Result<bool, E> {
        let inner = &*self.inner;
        inner.check_open()?;
        for target in places {
            Store::<M>::create(&inner.shared, &target.place)?;
        }
        inner.log.rotate().map_err(Error::from)?;
        let next = inner.log.segments().pop().map(|newest| newest.base);
        let next = next.unwrap_or(Position(1));
        self.flush()?;
        let applied = inner.applied();
        assert!(
            next <= applied.position.next(),
            "a flush has all that was written before it"
        );
        let targets = places.iter().map(ForkPlace::target);
        let whole = inner.log.fork(
            next,
            &targets.collect::<Vec<_>>(),
            &mut |records| {
                let needed = inner.needed(&applied, records);
                let needed = needed.map_err(|error| Failed::Deal(E::from(error)))?;
                let records = records.iter().zip(needed);
                let dealt = records.map(|((position, bytes), needed)| match needed {
                    true => deal(*position, bytes).map_err(Failed::Deal),
                    false => Ok(None),
                });
                dealt.collect()
            },
            held,
            &|bytes| inner.shared.room_for_work(bytes),
            stop,
        );
        whole.map_err(|failed| match failed {
            Failed::Log(error) => E::from(Error::from(error)),
            Failed::Deal(error) => error,
        })
    }
}
