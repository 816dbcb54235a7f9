//! [`Node`]: a filter that was checked and simplified, its values as terms.
//!
//! # Invariants
//! 1. `And` and `Or` have two children at least, and none of their own kind; `Not` has no `Not`
//!    below it.
//! 2. `All` and `None` occur at the root alone.
//! 3. Nesting is at most [`DEPTH_MAX`], so recursion over the tree is bounded.

use crate::cast::Target;
use crate::leaf::is_nan;
use crate::pattern::PatternKind;
use crate::tested::Tested;
use crate::{Bounds, Cast, Error, Filter, Leaf, Path, Result, TermRange, Test, Value};
use quire_model::ObjectRef;
use quire_model::ordered::OrderedValue;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The field that has a document's key, if the document has no other value there.
const KEY: &str = "_id";

/// How deep a filter may be nested.
pub const DEPTH_MAX: usize = 64;

/// How many predicates a query may have.
pub const PREDICATES_MAX: usize = 10_000;

/// How many values the lists of a query may have, all together.
pub const IN_VALUES_MAX: usize = 1_000_000;

/// How many regular expressions a query may have: each is compiled.
const REGEXPS_MAX: usize = 64;

/// How many slices there may be.
const SLICES_MAX: u32 = 1_024;

/// A filter, ready to be planned.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    All,
    None,
    Leaf(Leaf),
    Tested(Tested),
    Not(Box<Node>),
    And(And),
    Or(Vec<Node>),
}

/// All of some nodes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct And {
    pub(crate) nodes: Vec<Node>,
    pub(crate) joins: Vec<Join>,
}

/// Ranges of one field that are one range wherever no document has several values there: `a >= 1
/// AND a < 5`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Join {
    /// Their places among the nodes, ascending.
    pub(crate) places: Vec<usize>,
    pub(crate) path: Path,
    /// What lies in all of them; none if nothing can.
    pub(crate) leaf: Option<Leaf>,
}

impl Node {
    /// The predicates, if all of them have to hold and nothing else does.
    pub(crate) fn leaves(&self) -> Option<SmallVec<[&Leaf; 4]>> {
        let nodes = match self {
            Node::And(And { nodes, joins }) if joins.is_empty() => nodes.as_slice(),
            Node::Leaf(_) => std::slice::from_ref(self),
            _ => return None,
        };
        let leaves = nodes.iter().map(|node| match node {
            Node::Leaf(leaf) => Some(leaf),
            _ => None,
        });
        leaves.collect()
    }
}

/// Checks and simplifies the filters of one query.
#[derive(Debug, Default)]
pub(crate) struct TreeBuilder {
    predicates: usize,
    regexps: usize,
    in_values: usize,
}

impl TreeBuilder {
    /// # Errors
    /// `Invalid` if the filter is nested too deep, has too many parts, or makes no sense.
    pub(crate) fn add(&mut self, filter: Filter) -> Result<Node> {
        let node = self.node(filter, 0)?;
        debug_assert!(node.is_root(), "a filter is simplified");
        Ok(node)
    }

    fn node(&mut self, filter: Filter, depth: usize) -> Result<Node> {
        if depth > DEPTH_MAX {
            let what = format!("a filter is nested more than {DEPTH_MAX} deep");
            return Err(Error::Invalid(what));
        }
        Ok(match filter {
            Filter::All => Node::All,
            Filter::And(all) => self.and(all, depth)?,
            Filter::Or(any) => self.or(any, depth)?,
            Filter::Not(one) => match self.node(*one, depth + 1)? {
                Node::All => Node::None,
                Node::None => Node::All,
                Node::Not(one) => *one,
                node => Node::Not(Box::new(node)),
            },
            Filter::Eq(path, value) => {
                self.values(&path, std::slice::from_ref(&value))?;
                match same_key(&path, &value) {
                    Some(same) => leaf(path, one_of(vec![value, same])),
                    None => leaf(path, Some(Test::Eq(value))),
                }
            }
            Filter::In(path, mut values) => {
                self.values(&path, &values)?;
                let same = values.iter().filter_map(|value| same_key(&path, value));
                let same: Vec<_> = same.collect();
                values.extend(same);
                leaf(path, one_of(values))
            }
            Filter::Range(path, lower, upper) => {
                use std::ops::Bound::{Excluded, Included};
                self.values(&path, &[])?;
                let mut is_bound = false;
                for bound in [&lower, &upper] {
                    if let Included(value) | Excluded(value) = bound {
                        check(value)?;
                        is_bound = true;
                    }
                }
                match is_bound {
                    true => {
                        let range = TermRange::between(lower.as_ref(), upper.as_ref())?;
                        leaf(path, range.map(Test::Range))
                    }
                    false => leaf(path, Some(Test::Exists)),
                }
            }
            Filter::Prefix(path, prefix) => {
                self.values(&path, &[])?;
                leaf(path, Some(Test::Range(TermRange::of_prefix(&prefix))))
            }
            Filter::Like(path, pattern) => {
                self.values(&path, &[])?;
                let beginning = pattern.beginning();
                match pattern.is_prefix() {
                    Some(false) => leaf(path, Some(Test::Eq(Value::from(beginning.as_str())))),
                    Some(true) => leaf(path, Some(Test::Range(TermRange::of_prefix(&beginning)))),
                    None => {
                        self.regexps += usize::from(pattern.kind() == PatternKind::Regexp);
                        if self.regexps > REGEXPS_MAX {
                            let what =
                                format!("a query has more than {REGEXPS_MAX} regular expressions");
                            return Err(Error::Invalid(what));
                        }
                        Node::Tested(Tested::of_pattern(path, pattern)?)
                    }
                }
            }
            Filter::Cast(cast, path, lower, upper) => {
                self.values(&path, &[])?;
                let bounds = (lower, upper);
                match cast.target(&bounds)? {
                    Some(target) => cast_node(cast, path, target, bounds),
                    None => Node::None,
                }
            }
            Filter::Slice { path, number, max } => {
                self.values(&path, &[])?;
                if number >= max || max > SLICES_MAX {
                    let what = format!(
                        "slice {number} of {max}: there are up to {SLICES_MAX}, and the first is 0"
                    );
                    return Err(Error::Invalid(what));
                }
                Node::Tested(Tested::of_slice(path, number, max))
            }
            Filter::Exists(path) => {
                self.values(&path, &[])?;
                leaf(path, Some(Test::Exists))
            }
        })
    }

    fn and(&mut self, all: Vec<Filter>, depth: usize) -> Result<Node> {
        let mut nodes = Vec::with_capacity(all.len());
        let mut nothing = false;
        for filter in all {
            match self.node(filter, depth + 1)? {
                Node::All => {}
                // The others are still checked.
                Node::None => nothing = true,
                Node::And(more) => nodes.extend(more.nodes),
                node => nodes.push(node),
            }
        }
        Ok(match nodes.pop() {
            _ if nothing => Node::None,
            None => Node::All,
            Some(only) if nodes.is_empty() => only,
            Some(last) => {
                nodes.push(last);
                let joins = joins(&nodes);
                Node::And(And { nodes, joins })
            }
        })
    }

    fn or(&mut self, any: Vec<Filter>, depth: usize) -> Result<Node> {
        let mut nodes: Vec<Node> = Vec::with_capacity(any.len());
        let mut all = false;
        for filter in any {
            match self.node(filter, depth + 1)? {
                Node::None => {}
                Node::All => all = true,
                Node::Or(more) => nodes.extend(more),
                node => nodes.push(node),
            }
        }
        let mut nodes = join_values(nodes);
        Ok(match nodes.pop() {
            _ if all => Node::All,
            None => Node::None,
            Some(only) if nodes.is_empty() => only,
            Some(last) => {
                nodes.push(last);
                Node::Or(nodes)
            }
        })
    }

    /// Checks a predicate, and that there are not too many.
    fn values(&mut self, path: &Path, values: &[Value]) -> Result<()> {
        path.check_in_filter()?;
        values.iter().try_for_each(check)?;
        self.predicates += 1;
        self.in_values += values.len();
        if self.predicates > PREDICATES_MAX {
            let what = format!("a query has more than {PREDICATES_MAX} predicates");
            return Err(Error::Invalid(what));
        }
        if self.in_values > IN_VALUES_MAX {
            let what = format!("a query has more than {IN_VALUES_MAX} values to look for");
            return Err(Error::Invalid(what));
        }
        Ok(())
    }
}

fn check(value: &Value) -> Result<()> {
    match is_nan(value) {
        true => Err(Error::Invalid(
            "a NaN equals nothing, and is neither more nor less than anything".into(),
        )),
        false => Ok(()),
    }
}

/// The other value of the same key, where a key is compared: a key is its text, so 7 and `"7"` are
/// one. A document has the one that it was written with.
fn same_key(path: &Path, value: &Value) -> Option<Value> {
    if path.as_str() != KEY {
        return None;
    }
    match value.get() {
        OrderedValue::Int(number) => Some(Value::from(number.to_string().as_str())),
        OrderedValue::UInt(number) => Some(Value::from(number.to_string().as_str())),
        _ => {
            let text = value.as_str()?;
            let number = Value::from(text.parse::<i64>().ok()?);
            (number.to_string() == text).then_some(number)
        }
    }
}

/// Values of the target, and others that are of it once they are cast.
fn cast_node(cast: Cast, path: Path, target: Target, bounds: Bounds) -> Node {
    if let (Some(value), Some(_)) = (target.range.only(), &target.plain) {
        let others = Tested::of_cast_value(path.clone(), cast, target.others, value.clone());
        return Node::Or(vec![
            leaf(path, Some(Test::Eq(value))),
            Node::Tested(others),
        ]);
    }
    let others = Tested::of_cast(path.clone(), cast, target.others, target.range, bounds);
    match target.plain {
        Some(plain) => Node::Or(vec![
            leaf(path, Some(Test::Range(plain))),
            Node::Tested(others),
        ]),
        None => Node::Tested(others),
    }
}

fn leaf(path: Path, test: Option<Test>) -> Node {
    match test {
        None => Node::None,
        Some(test) if !path.has_elements() => Node::Leaf(Leaf { path, test }),
        Some(test) => Node::Tested(Tested::of_element(path, test)),
    }
}

fn one_of(mut values: Vec<Value>) -> Option<Test> {
    values.sort_unstable();
    values.dedup();
    match values.len() {
        0 | 1 => values.pop().map(Test::Eq),
        _ => Some(Test::In(values)),
    }
}

/// Joins all values that one field is compared with: `a = 1 OR a = 2 OR b = 3` becomes `a IN (1, 2)
/// OR b = 3`.
fn join_values(nodes: Vec<Node>) -> Vec<Node> {
    let mut lists: BTreeMap<Path, Vec<Value>> = BTreeMap::new();
    let (mut others, mut casts) = (Vec::new(), Vec::<Tested>::new());
    for node in nodes {
        match node {
            Node::Tested(tested) if tested.is_of_cast_values() => {
                let same = casts.iter_mut().find(|one| one.is_joinable(&tested));
                match same {
                    Some(same) => same.join(tested),
                    None => casts.push(tested),
                }
            }
            Node::Leaf(Leaf {
                path,
                test: Test::Eq(value),
            }) => lists.entry(path).or_default().push(value),
            Node::Leaf(Leaf {
                path,
                test: Test::In(values),
            }) => lists.entry(path).or_default().extend(values),
            other => others.push(other),
        }
    }
    let lists = lists.into_iter();
    let lists = lists.map(|(path, values)| leaf(path, one_of(values)));
    let casts = casts.into_iter().map(Node::Tested);
    lists.chain(casts).chain(others).collect()
}

/// The ranges among `nodes` that can be joined.
fn joins(nodes: &[Node]) -> Vec<Join> {
    let mut by_path: BTreeMap<&Path, (Vec<usize>, Option<TermRange>)> = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        if let Node::Leaf(Leaf { path, test }) = node
            && let Test::Range(range) = test
        {
            by_path
                .entry(path)
                .and_modify(|(places, joined)| {
                    places.push(place);
                    *joined = joined.take().and_then(|joined| joined.and(range));
                })
                .or_insert_with(|| (vec![place], Some(range.clone())));
        }
    }
    let joined = by_path
        .into_iter()
        .filter(|(_, (places, _))| places.len() > 1);
    joined
        .map(|(path, (places, range))| Join {
            places,
            path: path.clone(),
            leaf: range.map(|range| Leaf {
                path: path.clone(),
                test: Test::Range(range),
            }),
        })
        .collect()
}

impl Node {
    /// Whether the invariants of the module hold for a root.
    fn is_root(&self) -> bool {
        matches!(self, Node::All | Node::None) || self.is_simplified()
    }

    fn is_simplified(&self) -> bool {
        match self {
            Node::All | Node::None => false,
            Node::Tested(_) => true,
            Node::Leaf(leaf) => match &leaf.test {
                Test::In(values) => values.len() > 1 && values.is_sorted_by(|a, b| a < b),
                Test::Eq(_) | Test::Range(_) | Test::Exists => true,
            },
            Node::Not(one) => !matches!(**one, Node::Not(_)) && one.is_simplified(),
            Node::And(And { nodes, joins }) => {
                let simplified =
                    |node: &Node| !matches!(node, Node::And(_)) && node.is_simplified();
                let places = |join: &Join| join.places.is_sorted_by(|a, b| a < b);
                nodes.len() > 1 && nodes.iter().all(simplified) && joins.iter().all(places)
            }
            Node::Or(nodes) => {
                let simplified = |node: &Node| !matches!(node, Node::Or(_)) && node.is_simplified();
                nodes.len() > 1 && nodes.iter().all(simplified)
            }
        }
    }

    /// Calls `visit` with each leaf.
    pub(crate) fn each_leaf<'a>(&'a self, visit: &mut dyn FnMut(&'a Leaf)) {
        match self {
            Node::All | Node::None => {}
            Node::Leaf(leaf) => visit(leaf),
            Node::Tested(tested) => visit(&tested.base),
            Node::Not(one) => one.each_leaf(visit),
            Node::And(And { nodes, .. }) | Node::Or(nodes) => {
                nodes.iter().for_each(|node| node.each_leaf(visit));
            }
        }
    }

    /// Whether documents are read to tell which match.
    pub(crate) fn needs_documents(&self) -> bool {
        match self {
            Node::All | Node::None | Node::Leaf(_) => false,
            Node::Tested(tested) => tested.needs_documents(),
            Node::Not(one) => one.needs_documents(),
            Node::And(And { nodes, .. }) | Node::Or(nodes) => {
                nodes.iter().any(Node::needs_documents)
            }
        }
    }

    /// Whether a document matches; the document itself is read.
    pub(crate) fn accepts(&self, document: ObjectRef<'_>, term: &mut Vec<u8>) -> bool {
        match self {
            Node::All => true,
            Node::None => false,
            Node::Leaf(leaf) => leaf.accepts(document, term),
            Node::Tested(tested) => tested.accepts(document, term),
            Node::Not(one) => !one.accepts(document, term),
            Node::And(all) => all.nodes.iter().all(|node| node.accepts(document, term)),
            Node::Or(any) => any.iter().any(|node| node.accepts(document, term)),
        }
    }
}
