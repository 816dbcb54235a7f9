//! [`Explain`]: how an answer was found.

use crate::tree::{And, Join, Node};
use crate::{Access, AccessCost, Estimate};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How an answer was found. [`Display`](fmt::Display) shows it to people.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Explain {
    /// How many shards there are.
    pub shards: u64,
    /// Whether the query was executed on all of them as one, by indexes over all.
    pub is_merged: bool,
    /// Shards that were skipped because, by their statistics, nothing in them matches.
    pub pruned: u64,
    /// Shards whose hits were skipped because, by their statistics, better ones were known.
    pub outranked: u64,
    /// Documents in all shards.
    pub documents: u64,
    /// Documents that were tested because they come first in the query's order, where testing them
    /// was enough.
    pub first: u64,
    /// How often it was executed for aggregates that its memory does not hold at once.
    pub passes: u64,
    /// Time for estimates and plans. Times are those of all threads together.
    pub planning: Duration,
    /// Time for finding which documents match.
    pub filtering: Duration,
    /// Time for finding the first ones in order.
    pub ordering: Duration,
    /// Time for aggregates.
    pub aggregating: Duration,
    /// The filter, part by part.
    pub filter: Trace,
}

/// How a part of a filter was evaluated, in all shards together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// The predicate, or `AND`, `OR`, `NOT`.
    pub what: String,
    /// The estimated number of matching documents, at least.
    pub at_least: u64,
    /// The estimated number of matching documents, at most.
    pub at_most: u64,
    /// The number that was expected.
    pub expected: u64,
    /// In how many shards it was executed in which way.
    pub accesses: BTreeMap<Access, u64>,
    /// What that was estimated to cost; zero if nothing is known of it.
    pub cost: Duration,
    /// How many shards counted it without building a set.
    pub counted: u64,
    /// How many shards built its set.
    pub built: u64,
    /// How many shards tested it on documents that matched the other parts.
    pub tested: u64,
    /// Documents that matched, of those that were examined.
    pub rows: u64,
    /// Time taken, including its parts'.
    pub time: Duration,
    /// Its parts.
    pub parts: Vec<Trace>,
}

/// How a part of a filter was evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Counted,
    Built,
    Tested,
}

impl Explain {
    /// That all documents were counted, without reading any.
    #[must_use]
    pub fn of_count(documents: u64, shards: u64) -> Explain {
        Explain {
            shards,
            documents,
            filter: Trace {
                at_least: documents,
                at_most: documents,
                expected: documents,
                counted: shards,
                rows: documents,
                ..Trace::new(&Node::All)
            },
            ..Explain::default()
        }
    }

    /// Adds how other shards were executed.
    pub(crate) fn join(&mut self, other: &Explain) {
        self.pruned += other.pruned;
        self.outranked += other.outranked;
        self.first += other.first;
        self.planning += other.planning;
        self.filtering += other.filtering;
        self.ordering += other.ordering;
        self.aggregating += other.aggregating;
        self.filter.join(&other.filter);
    }
}

impl Trace {
    /// Adds how the same part was evaluated in other shards.
    fn join(&mut self, other: &Trace) {
        self.at_least += other.at_least;
        self.at_most += other.at_most;
        self.expected += other.expected;
        for (access, shards) in &other.accesses {
            *self.accesses.entry(*access).or_default() += shards;
        }
        self.cost += other.cost;
        self.counted += other.counted;
        self.built += other.built;
        self.tested += other.tested;
        self.rows += other.rows;
        self.time += other.time;
        for (part, other) in self.parts.iter_mut().zip(&other.parts) {
            part.join(other);
        }
    }

    pub(crate) fn new(node: &Node) -> Trace {
        let mut joined = Vec::new();
        let (what, parts): (_, &[Node]) = match node {
            Node::All => ("TRUE".to_string(), &[]),
            Node::None => ("FALSE".to_string(), &[]),
            Node::Leaf(leaf) => (leaf.to_string(), &[]),
            Node::Tested(tested) => (tested.to_string(), &[]),
            Node::Not(one) => ("NOT".to_string(), std::slice::from_ref(one)),
            Node::And(And { nodes, joins }) => {
                joined = joins.iter().map(Trace::of_join).collect();
                ("AND".to_string(), nodes)
            }
            Node::Or(nodes) => ("OR".to_string(), nodes),
        };
        Trace {
            what,
            parts: parts.iter().map(Trace::new).chain(joined).collect(),
            ..Trace::default()
        }
    }

    fn of_join(join: &Join) -> Trace {
        let what = match &join.leaf {
            Some(leaf) => leaf.to_string(),
            None => format!("{} in no range", join.path),
        };
        Trace {
            what: format!("at once: {what}"),
            ..Trace::default()
        }
    }

    /// The trace of the part at `place`, if the query is traced.
    pub(crate) fn child<'t>(
        trace: &'t mut Option<&mut Trace>,
        place: usize,
    ) -> Option<&'t mut Trace> {
        trace.as_mut()?.parts.get_mut(place)
    }

    pub(crate) fn planned(&mut self, estimate: &Estimate) {
        self.at_least += estimate.at_least;
        self.at_most += estimate.at_most;
        self.expected += estimate.expected;
    }

    /// It is executed on a shard in this way.
    pub(crate) fn accessed(&mut self, chosen: AccessCost) {
        *self.accesses.entry(chosen.access).or_default() += 1;
        self.cost += Duration::from_nanos(chosen.nanos);
    }

    pub(crate) fn done(&mut self, how: How, rows: u64, time: Duration) {
        match how {
            How::Counted => self.counted += 1,
            How::Built => self.built += 1,
            How::Tested => self.tested += 1,
        }
        self.rows += rows;
        self.time += time;
    }

    fn write(&self, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, indent) = (&self.what, 2 * depth);
        write!(f, "{:indent$}{what}: ", "")?;
        match self.at_least == self.at_most {
            true => write!(f, "{} estimated", self.at_most)?,
            false => write!(
                f,
                "{} to {} estimated, {} expected",
                self.at_least, self.at_most, self.expected
            )?,
        }
        for access in Access::ALL {
            if let Some(shards) = self.accesses.get(&access) {
                write!(f, ", {access} in {}", counted(*shards, "shard"))?;
            }
        }
        if self.cost > Duration::ZERO {
            write!(f, " at a cost of about {:?}", self.cost)?;
        }
        let ways = [
            ("counted", self.counted),
            ("built", self.built),
            ("tested", self.tested),
        ];
        let mut was_executed = false;
        for (way, shards) in ways.iter().filter(|(_, shards)| *shards > 0) {
            write!(f, ", {way} in {}", counted(*shards, "shard"))?;
            was_executed = true;
        }
        match was_executed {
            true => writeln!(f, ", {} found, {:?}", self.rows, self.time)?,
            false => writeln!(f, ", not executed")?,
        }
        self.parts
            .iter()
            .try_for_each(|part| part.write(depth + 1, f))
    }
}

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} in {}{}; {} pruned, {} outranked{}",
            counted(self.documents, "document"),
            counted(self.shards, "shard"),
            if self.is_merged {
                ", queried as one"
            } else {
                ""
            },
            self.pruned,
            self.outranked,
            match self.first {
                0 => String::new(),
                first => format!(", the first {} tested", counted(first, "document")),
            }
        )?;
        self.filter.write(0, f)?;
        writeln!(
            f,
            "planning {:?}, filtering {:?}, ordering {:?}, aggregating {:?}{}",
            self.planning,
            self.filtering,
            self.ordering,
            self.aggregating,
            match self.passes {
                0 => String::new(),
                passes => format!(" in {passes} passes"),
            }
        )
    }
}

/// A number with its noun, in the plural unless it is 1.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
