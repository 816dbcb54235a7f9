//! Layers against a map of documents and terms.

use super::*;
use crate::DocSet;
use proptest::collection::vec;
use proptest::prelude::*;
use quire_model::ValueRef;
use quire_model::ordered::OrderedValue;
use std::collections::{BTreeMap, BTreeSet};

type Terms = BTreeSet<Vec<u8>>;
/// What the one term of a document stands for, if it has one, and that is no float.
fn only_value(terms: &Terms) -> Option<OrderedValue<'_>> {
    let value = crate::term::decode(terms.first().filter(|_| terms.len() == 1)?);
    value.filter(|value| !matches!(value, OrderedValue::Float(_)))
}

fn value_of<'v>(value: &'v OrderedValue<'_>) -> ValueRef<'v> {
    match value {
        OrderedValue::Bool(value) => ValueRef::Bool(*value),
        OrderedValue::Int(value) => ValueRef::Int(*value),
        OrderedValue::UInt(value) => ValueRef::UInt(*value),
        OrderedValue::String(text) => ValueRef::String(text),
        _ => ValueRef::Null,
    }
}

/// What layers say: of each document, its terms, or that it is marked.
type Model = BTreeMap<u16, Option<Terms>>;

fn parsed<'l>(layers: &[&'l [u8]]) -> Vec<ColumnLayer<'l>> {
    let layers = layers.iter().map(|layer| ColumnLayer::new(layer).unwrap());
    layers.collect()
}

fn term(value: OrderedValue<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    crate::term::encode_ordered(value, &mut out);
    out
}

/// Values of a kind: a layer of one kind has an encoding of its own.
fn any_value(kind: u8) -> BoxedStrategy<Vec<u8>> {
    let text = |text: String| term(OrderedValue::String(text.into()));
    let int = |value| term(OrderedValue::Int(value));
    let float = |value| term(OrderedValue::Float(value));
    let null = Just(term(OrderedValue::Null));
    let special = prop_oneof![
        Just(OrderedValue::Bool(true)),
        Just(OrderedValue::Float(f64::INFINITY)),
        Just(OrderedValue::Float(1e300)),
        Just(OrderedValue::UInt(u64::MAX)),
        Just(OrderedValue::Int(i64::MIN)),
        Just(OrderedValue::Int(i64::MAX)),
    ];
    match kind {
        0 => (0i64..40).prop_map(int).boxed(),
        1 => prop_oneof![9 => (-9_000i64..900_000).prop_map(int), 1 => null].boxed(),
        2 => any::<i64>().prop_map(int).boxed(),
        3 => (-900i64..90_000)
            .prop_map(move |cents| float(cents as f64 / 100.0))
            .boxed(),
        4 => {
            let number = any::<f64>().prop_filter("a number", |value| !value.is_nan());
            prop_oneof![9 => number.prop_map(float), 1 => null].boxed()
        }
        5 => "[ab]{0,3}".prop_map(text).boxed(),
        6 => "[a-z0-9]{4,20}".prop_map(text).boxed(),
        _ => prop_oneof![
            4 => any_value(1), 4 => any_value(3), 4 => any_value(5),
            2 => special.prop_map(term), 1 => "z{256}".prop_map(text),
        ]
        .boxed(),
    }
}

/// The documents of a layer: some, or all of a range.
fn any_layer() -> impl Strategy<Value = Model> {
    (0u8..8, 0usize..4).prop_flat_map(|(kind, most)| layer_of(kind, most))
}

/// Layers: any, or all with values of one kind.
fn any_layers() -> impl Strategy<Value = Vec<Model>> {
    let of_kind = |(kind, most)| vec(layer_of(kind, most), 0..7);
    let alike = (0u8..8, 0usize..4).prop_flat_map(of_kind);
    prop_oneof![vec(any_layer(), 0..7), alike]
}

/// As [`any_layer`], with values of a kind, `most` a document, or one.
fn layer_of(kind: u8, most: usize) -> impl Strategy<Value = Model> {
    let lows = prop_oneof![
        3 => (0u16..500, 0u16..200).prop_map(|(from, count)| (from..from + count).collect()),
        2 => vec(0u16..600, 0..100),
        1 => vec(any::<u16>(), 0..200),
        1 => Just(vec![0, 1, 65_535]),
    ];
    lows.prop_flat_map(move |lows: Vec<u16>| {
        let lows: BTreeSet<u16> = lows.into_iter().collect();
        let count = lows.len();
        let values = vec(vec(any_value(kind), 0..most.max(1) + 1), count..=count);
        values.prop_map(move |values| {
            let one = |(low, values): (&u16, Vec<Vec<u8>>)| {
                let is_marked = values.iter().any(|term| term.len() > TERM_BYTES_MAX);
                (*low, (!is_marked).then(|| values.into_iter().collect()))
            };
            lows.iter().zip(values).map(one).collect()
        })
    })
}

fn encoded(model: &Model, is_bottom: bool) -> Vec<u8> {
    let mut writer = ColumnBlockWriter::new();
    for (low, terms) in model {
        terms.iter().flatten().for_each(|term| writer.push(term));
        writer.end_document(*low, terms.is_none());
    }
    let mut out = Vec::new();
    writer.encode(is_bottom, &mut out);
    out
}

/// What a layer says, and checks that all ways to read it say the same.
fn decoded(layer: &ColumnLayer<'_>) -> Model {
    let block = match layer {
        ColumnLayer::Plain(plain) => {
            let one = |row: plain::PlainRow<'_>| {
                let terms = row.terms().map(<[u8]>::to_vec).collect();
                (row.low, (!row.is_marked).then_some(terms))
            };
            return plain.rows().map(one).collect();
        }
        ColumnLayer::Packed(block) => block,
    };
    let mut docs = DocSet::empty();
    block.add_contained(7, &mut docs);
    let docs: Vec<u32> = docs.iter().collect();
    assert_eq!(docs.len(), block.rows() as usize);
    let (mut model, mut left, mut all) = (Model::new(), docs.iter(), Vec::new());
    block
        .ordinals(&docs, 7, |ordinals| {
            let low = (left.next().unwrap() - 7) as u16;
            assert!(ordinals.is_sorted_by(|a, b| a < b));
            assert!(ordinals.len() < 2 || block.has_many());
            let of = |ordinal: &u64| {
                assert!(*ordinal < block.ordinal_end());
                let mut term = Vec::new();
                block.term(*ordinal, &mut term).unwrap();
                let (least, greatest) = block.zone().unwrap();
                assert!((least..=greatest).contains(&term.as_slice()));
                let from = block.ordinal_of(&term).unwrap();
                let to = block.ordinal_of(&[&term[..], &[0]].concat()).unwrap();
                assert!((from..to).contains(ordinal));
                if let Some(numbers) = block.numbers() {
                    let number = match numbers.number(*ordinal) {
                        None => OrderedValue::Null,
                        Some(Number::Int(value)) => OrderedValue::Int(value),
                        Some(Number::Float(value)) => OrderedValue::Float(value),
                    };
                    let mut same = Vec::new();
                    crate::term::encode_ordered(number, &mut same);
                    assert_eq!(same, term);
                }
                term
            };
            let terms: Terms = ordinals.iter().map(of).collect();
            assert_eq!(terms.len(), ordinals.len());
            all.push(ordinals.to_vec());
            model.insert(low, (!block.is_marked(low)).then_some(terms));
        })
        .unwrap();
    let every = |is_greatest| {
        let one = move |ordinals: &Vec<u64>| match is_greatest {
            true => ordinals.last().copied(),
            false => ordinals.first().copied(),
        };
        all.iter()
            .map(move |ordinals| one(ordinals).unwrap_or(u64::MAX))
    };
    for is_greatest in [false, true] {
        let mut ends = Vec::new();
        block.ends(&docs, 7, is_greatest, &mut ends).unwrap();
        assert!(every(is_greatest).eq(ends.iter().copied()));
        let some: Vec<u32> = docs.iter().copied().step_by(3).collect();
        block.ends(&some, 7, is_greatest, &mut ends).unwrap();
        assert!(every(is_greatest).step_by(3).eq(ends.iter().copied()));
    }
    let (from, to) = (block.ordinal_end() / 3, block.ordinal_end() / 3 * 2);
    let mut bits = vec![0; BLOCK_LOWS / 64];
    block.add_in_range(from..to, &mut bits).unwrap();
    let is_in = |ordinals: &&Vec<u64>| ordinals.iter().any(|one| (from..to).contains(one));
    let expected = docs.iter().zip(&all).filter(|(_, own)| is_in(own));
    let found = DocSet::from_bits(&bits);
    assert!(expected.map(|(doc, _)| doc - 7).eq(found.iter()));
    model
}

/// What a list of layers says.
fn all_layers(bytes: &[u8]) -> Model {
    let (mut layers, mut model) = (Vec::new(), Model::new());
    ColumnLayers::new(bytes).append_to(&mut layers).unwrap();
    for layer in layers {
        model.extend(decoded(&ColumnLayer::new(layer).unwrap()));
    }
    model
}

fn with_values(model: &Model) -> Model {
    let has =
        |(_, terms): &(&u16, &Option<Terms>)| terms.as_ref().is_none_or(|terms| !terms.is_empty());
    let kept = model.iter().filter(has);
    kept.map(|(low, terms)| (*low, terms.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_layer_gives_back_what_was_written(model in any_layer()) {
        let patch = encoded(&model, false);
        if !model.is_empty() {
            prop_assert_eq!(&decoded(&ColumnLayer::new(&patch).unwrap()), &model);
        }
        let value = encoded(&model, true);
        let right = with_values(&model);
        if value.is_empty() {
            prop_assert!(right.is_empty());
        } else {
            let found = decoded(&ColumnLayer::new(&value).unwrap());
            prop_assert_eq!(with_values(&found), right);
        }
    }

    #[test]
    fn an_inverted_block_is_a_layer_and_the_postings_of_its_values(
        model in any_layer(),
        is_backwards in any::<bool>(),
        by_value in any::<u16>(),
    ) {
        let mut model = with_values(&model);
        model.retain(|_, terms| terms.is_some());
        let mut order: Vec<_> = model.iter().collect();
        if is_backwards {
            order.reverse();
        }
        let mut block = InvertedBlock::new();
        let mut postings: BTreeMap<&[u8], BTreeSet<u16>> = BTreeMap::new();
        for (low, terms) in order {
            // Of some documents the one value comes as it is.
            let one = terms.as_ref().and_then(only_value).filter(|_| low & by_value == 0);
            if !one.is_some_and(|one| block.add_one(*low, value_of(&one))) {
                block.add(*low, terms.iter().flatten().map(Vec::as_slice));
            }
            for term in terms.iter().flatten() {
                postings.entry(term).or_default().insert(*low);
            }
        }
        let inverted = block.finish();
        let lows = |is_in: fn(&Terms) -> bool| {
            let of = model.iter().filter(|(_, terms)| terms.as_ref().is_some_and(is_in));
            of.map(|(low, _)| *low).collect::<Vec<_>>()
        };
        let is_there = |terms: &Terms| terms.iter().any(|term| term != crate::term::NULL);
        prop_assert_eq!(inverted.present(), lows(is_there));
        prop_assert_eq!(inverted.several(), lows(|terms| terms.len() > 1));
        let mut found = Vec::new();
        inverted.each_posting(|term, lows| found.push((term.to_vec(), lows.to_vec())));
        let postings = postings.into_iter();
        let postings = postings.map(|(term, lows)| (term.to_vec(), lows.into_iter().collect()));
        prop_assert_eq!(found, postings.collect::<Vec<(Vec<u8>, Vec<u16>)>>());
        let mut operand = Vec::new();
        inverted.encode_operand(&mut operand);
        let mut layers = Vec::new();
        ColumnLayers::new(&operand).append_to(&mut layers).unwrap();
        prop_assert_eq!(layers.len(), usize::from(!model.is_empty()));
        for layer in layers {
            prop_assert_eq!(&decoded(&ColumnLayer::new(layer).unwrap()), &model);
        }
    }

    #[test]
    fn the_newest_layer_counts_however_layers_are_merged(
        models in any_layers(),
        cuts in vec(0usize..4, 0..7),
    ) {
        let mut right = Model::new();
        // Operands of a value, combined and folded in any way.
        let (mut value, mut waiting) = (Vec::new(), Vec::<Vec<u8>>::new());
        for (at, model) in models.iter().enumerate() {
            right.extend(model.clone());
            let (layer, mut operand) = (encoded(model, false), Vec::new());
            if !layer.is_empty() {
                layer::push_layer(&layer, &mut operand);
            }
            waiting.push(operand);
            let cut = cuts.get(at).copied().unwrap_or(3);
            if cut < 2 && waiting.len() > 1 {
                let mut combined = Vec::new();
                let operands: Vec<&[u8]> = waiting.iter().map(Vec::as_slice).collect();
                combine_layers(&operands, &mut combined).unwrap();
                waiting = vec![combined];
            }
            if cut == 0 || cut == 3 {
                waiting.drain(..).for_each(|operand| value.extend_from_slice(&operand));
                let mut folded = Vec::new();
                fold_layers(&value, &mut folded).unwrap();
                value = folded;
            }
        }
        waiting.drain(..).for_each(|operand| value.extend_from_slice(&operand));
        prop_assert_eq!(with_values(&all_layers(&value)), with_values(&right));
        let mut folded = Vec::new();
        fold_layers(&value, &mut folded).unwrap();
        prop_assert_eq!(with_values(&all_layers(&folded)), with_values(&right));
    }

    #[test]
    fn layers_joined_in_bulk_say_what_layers_merged_value_by_value_say(
        models in (0u8..8).prop_flat_map(|kind| vec(layer_of(kind, 1), 2..5)),
        is_bottom in any::<bool>(),
    ) {
        let layers: Vec<Vec<u8>> = models.iter().map(|model| encoded(model, false)).collect();
        let layers: Vec<&[u8]> = layers.iter().map(Vec::as_slice).collect();
        prop_assume!(layers.iter().all(|layer| !layer.is_empty()));
        let decode = |bytes: &[u8]| match bytes {
            [] => Model::new(),
            _ => decoded(&ColumnLayer::new(bytes).unwrap()),
        };
        let (mut found, mut expected) = (Vec::new(), Vec::new());
        merge::merge(&layers, is_bottom, &mut found).unwrap();
        merge::Layers::new(parsed(&layers))
            .merge_values(is_bottom, &mut expected)
            .unwrap();
        prop_assert_eq!(with_values(&decode(&found)), with_values(&decode(&expected)));
        if !is_bottom {
            prop_assert_eq!(decode(&found), decode(&expected));
        }
    }

    /// The bytes are those of a writer that is given all documents.
    #[test]
    fn layers_of_documents_that_were_only_added_become_the_layer_of_all(
        first in prop_oneof![0u32..4, 0u32..400],
        lengths in vec(1u32..200, 1..6),
        kind in 0u32..4,
        missing in prop_oneof![Just(u32::MAX), 2u32..40],
        is_bottom in any::<bool>(),
    ) {
        let value = |low: u32| match kind {
            0 => OrderedValue::String(format!("text {}", low % 70).into()),
            1 => OrderedValue::Int(i64::from(low) * 7 - 1_000),
            2 => OrderedValue::Float(f64::from(low) / 8.0),
            // Few and far between: a dictionary of numbers is smaller.
            _ => OrderedValue::Int(i64::from(low % 3) << 50),
        };
        let layer_of = |lows: std::ops::Range<u32>, is_bottom| {
            // For `u32::MAX`, none.
            let terms = |low| match low % missing == missing - 1 {
                true => Terms::new(),
                false => Terms::from([term(value(low))]),
            };
            let model: Model = lows.map(|low| (low as u16, Some(terms(low)))).collect();
            encoded(&model, is_bottom)
        };
        let (mut layers, mut end) = (Vec::new(), first);
        for length in lengths {
            layers.push(layer_of(end..end + length, false));
            end += length;
        }
        let expected = layer_of(first..end, is_bottom);
        let layers: Vec<&[u8]> = layers.iter().map(Vec::as_slice).collect();
        let mut found = Vec::new();
        merge::merge(&layers, is_bottom, &mut found).unwrap();
        prop_assert!(found == expected, "{} and {} bytes", found.len(), expected.len());
        let Some(blocks) = merge::all_packed(&parsed(&layers)) else {
            return Ok(());
        };
        let is_for_sure = kind != 3 && (missing == u32::MAX || !is_bottom);
        let mut appended = Vec::new();
        let is_appended = join::append(&blocks, is_bottom, &mut appended).unwrap();
        prop_assert!(is_appended || !is_for_sure);
        prop_assert!(!is_appended || appended == expected);
    }

    #[test]
    fn bytes_that_are_no_layer_are_refused_or_harmless(
        model in any_layer(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        wanted in vec(any::<u8>(), 0..12),
    ) {
        let mut bytes = encoded(&model, false);
        if bytes.is_empty() {
            bytes.push(1);
        }
        if damage.is_empty() {
            bytes.truncate(cut.index(bytes.len()));
        }
        for (at, to) in damage {
            // Most of what matters is in the first bytes.
            let at = match to % 2 {
                0 => at.index(bytes.len()),
                _ => at.index(bytes.len().min(60)),
            };
            bytes[at] = to;
        }
        read_anything(&bytes, &wanted);
    }

    #[test]
    fn any_bytes_are_refused_or_harmless(bytes in vec(any::<u8>(), 0..200)) {
        read_anything(&bytes, &[0x55]);
    }
}

#[test]
fn layers_of_texts_and_of_numbers_are_joined_in_bulk() {
    let text = |n: u32| OrderedValue::String(format!("text {}", n % 700).into());
    let values: [&dyn Fn(u32) -> OrderedValue<'static>; 3] =
        [&text, &|n| OrderedValue::Int(i64::from(n) * 7), &|n| {
            OrderedValue::Float(f64::from(n) / 8.0)
        }];
    for value in values {
        let layer = |lows: std::ops::Range<u32>| {
            let one = |low| (low as u16, Some(Terms::from([term(value(low))])));
            encoded(&lows.map(one).collect(), false)
        };
        let layers = [layer(0..900), layer(500..1_400), layer(2_000..2_500)];
        let layers = layers.each_ref().map(Vec::as_slice);
        let mut out = Vec::new();
        let layers = merge::Layers::new(parsed(&layers));
        assert!(layers.join(true, &mut out).unwrap());
        let joined = with_values(&decoded(&ColumnLayer::new(&out).unwrap()));
        assert_eq!(joined.len(), 1_400 + 500);
    }
}

#[test]
fn documents_around_the_rows_are_refused() {
    let value = term(OrderedValue::Int(7));
    for several in [0, 1] {
        let mut writer = ColumnBlockWriter::new();
        for low in 100..200 {
            (0..several).for_each(|_| writer.push(&value));
            writer.push(&term(OrderedValue::Int(low.into())));
            writer.end_document(low, false);
        }
        let mut bytes = Vec::new();
        writer.encode(false, &mut bytes);
        let Ok(ColumnLayer::Packed(block)) = ColumnLayer::new(&bytes) else {
            panic!("a run of a hundred documents is packed");
        };
        for docs in [[7, 150], [99, 100], [150, 200], [99, 200]] {
            assert!(block.ends(&docs, 0, true, &mut Vec::new()).is_err());
            assert!(block.ordinals(&docs, 0, |_| {}).is_err());
        }
    }
}

/// Reads bytes as a layer, and as layers, in every way.
fn read_anything(bytes: &[u8], wanted: &[u8]) {
    let mut list = Vec::new();
    layer::push_layer(bytes, &mut list);
    for list in [bytes, &list] {
        let mut out = Vec::new();
        let _ = fold_layers(list, &mut out);
        let _ = combine_layers(&[list, list], &mut out);
    }
    if let Ok(ColumnLayer::Packed(block)) = ColumnLayer::new(bytes) {
        let mut docs = DocSet::empty();
        block.add_contained(0, &mut docs);
        block.add_marked(0, &mut docs);
        let docs: Vec<u32> = docs.iter().take(2000).collect();
        let (mut out, mut term) = (Vec::new(), Vec::new());
        let _ = block.ends(&docs, 0, true, &mut out);
        let _ = block.ordinals(&docs, 0, |_| {});
        let _ = block.ordinal_of(wanted);
        let _ = block.term(3, &mut term);
        let mut bits = vec![0; BLOCK_LOWS / 64];
        let _ = block.add_in_range(0..u64::MAX, &mut bits);
        if let Some(numbers) = block.numbers() {
            let _ = numbers.sum_of_integers(&out);
            numbers.floats(&out, &mut Vec::new());
        }
    }
}
