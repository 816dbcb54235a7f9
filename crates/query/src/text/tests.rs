//! What text is read as, and what is refused where.

use crate::{Aggregate, Filter, Order, Pattern, field, find, find_all};

#[test]
fn the_words_of_sql_are_read_as_filters() {
    let same = [
        ("a=1", field("a").eq(1)),
        (
            "a <> 'it''s' and b != -2.50",
            field("a").ne("it's").and(field("b").ne(-2.5)),
        ),
        (
            "(a < 1 or a >= 2e3) AND not b <= 'x'",
            field("a")
                .lt(1)
                .or(field("a").gte(2000))
                .and(!field("b").lte("x")),
        ),
        (
            "a between -1 and 2 or a > 18446744073709551615",
            field("a").between(-1, 2).or(field("a").gt(u64::MAX)),
        ),
        (
            "range(a, '>', 1, '<', 5)",
            Filter::Range(
                "a".into(),
                std::ops::Bound::Excluded(1.into()),
                std::ops::Bound::Excluded(5.into()),
            ),
        ),
        ("range = 1", field("range").eq(1)),
        (
            "a in (1, 'x', true) AND b not in (NULL)",
            field("a")
                .is_in([crate::Value::from(1), "x".into(), true.into()])
                .and(!field("b").is_in([crate::Value::null()])),
        ),
        (
            "a like 'ab%' and b not like '50!%%' escape '!'",
            field("a")
                .starts_with("ab")
                .and(!field("b").starts_with("50%")),
        ),
        (
            "a regexp 'b.*' or not regexp iregexp '''\\d' or c not regexp ''",
            field("a")
                .is_like(Pattern::regexp("b.*").unwrap())
                .or(!field("regexp").is_like(Pattern::regexp("'\\d").unwrap().ignoring_case()))
                .or(!field("c").is_like(Pattern::regexp("").unwrap())),
        ),
        (
            "fuzzy(a.b, 'x''y', 2, 1) and not ifuzzy(\"not\", '', 0, 0) or fuzzy = 1",
            field("a.b")
                .is_like(Pattern::fuzzy("x'y", 2, 1).unwrap())
                .and(!field("not").is_like(Pattern::fuzzy("", 0, 0).unwrap().ignoring_case()))
                .or(field("fuzzy").eq(1)),
        ),
        (
            "a.b.\"odd name\".order IS NULL and @timestamp is not null",
            (!field("a.b.odd name.order").exists()).and(field("@timestamp").exists()),
        ),
        (
            "\"and\" = FALSE -- a comment\n/* and another */",
            field("and").eq(false),
        ),
        ("TRUE", Filter::All),
        ("not false", !Filter::none()),
        ("not not (((a = 1)))", !!field("a").eq(1)),
        (
            "_id = 'x' or straße = 1",
            field("_id").eq("x").or(field("straße").eq(1)),
        ),
        (
            "a[2] = 1 and b.\"c[0]\"[0][1].d is null and number(e[3]) > 4",
            field("a")
                .element(2)
                .eq(1)
                .and(!field("b.c[0]").element(0).element(1).field("d").exists())
                .and(Filter::Cast(
                    crate::Cast::Number,
                    crate::Path::new("e").element(3),
                    std::ops::Bound::Excluded(4.into()),
                    std::ops::Bound::Unbounded,
                )),
        ),
        (
            "date(at) < '2026-01-31T12:00+01:00' and address(ip) = '10.0.0.0/8'",
            Filter::Cast(
                crate::Cast::Date,
                "at".into(),
                std::ops::Bound::Unbounded,
                std::ops::Bound::Excluded("2026-01-31T12:00+01:00".into()),
            )
            .and(Filter::Cast(
                crate::Cast::Address,
                "ip".into(),
                std::ops::Bound::Included("10.0.0.0/8".into()),
                std::ops::Bound::Included("10.0.0.0/8".into()),
            )),
        ),
    ];
    for (text, filter) in same {
        assert_eq!(Filter::parse(text).unwrap(), filter, "{text}");
        assert_eq!(
            Filter::parse(&filter.to_string()).unwrap(),
            filter,
            "{text}"
        );
    }
    let orders = Order::parse_list("price desc, at.added, \"odd name\" ASC").unwrap();
    assert_eq!(
        orders,
        [
            field("price").descending(),
            field("at.added").ascending(),
            field("odd name").ascending()
        ]
    );
    assert_eq!(
        Aggregate::parse("terms(mark, 3) where a = 1").unwrap(),
        Aggregate::terms("mark", 3).among(field("a").eq(1))
    );
}

#[test]
fn what_is_no_filter_is_refused_with_its_place() {
    let refused = [
        ("", "1, column 1: expected a field"),
        ("a", "1, column 2: expected =, <>"),
        ("a = ", "1, column 5: expected a number"),
        (
            "a = 1 b",
            "1, column 7: expected AND, OR or the end, found b",
        ),
        ("a = 1 AND\n  or", "2, column 3: expected a field"),
        (
            "a = \"x\"",
            "1, column 5: \"x\" is a field's name; a string stands in 'single quotes'",
        ),
        ("a = b", "1, column 5: expected a number"),
        ("a = 1 + 1", "1, column 7: expected AND, OR or the end"),
        ("a = - 'x'", "1, column 7: expected a number"),
        (
            "a like b",
            "1, column 8: expected a pattern in single quotes",
        ),
        ("a regexp '('", "1, column 10: the regular expression \"(\""),
        ("fuzzy(a, 'b', 3, 0)", "1, column 10: 3 edits"),
        ("a like 'b!' escape '!'", "1, column 8: nothing follows"),
        (
            "a in (1",
            "1, column 8: expected a comma or a closing bracket",
        ),
        ("a = 'x", "1, column 5: Unterminated string literal"),
        ("a. = 1", "1, column 4: expected a field"),
        (
            "\"a..b\" = 1",
            "1, column 1: the path \"a..b\" has an empty name",
        ),
        (
            "(a = 1",
            "1, column 7: expected AND, OR or a closing bracket",
        ),
        ("a = 1)", "1, column 6: expected AND, OR or the end"),
        ("a is 1", "1, column 6: expected NULL"),
        ("1 = a", "1, column 1: expected a field"),
        ("lower(a) = 1", "1, column 6: expected =, <>"),
        (
            "a = 1; drop table b",
            "1, column 6: expected AND, OR or the end",
        ),
    ];
    for (text, message) in refused {
        let error = Filter::parse(text).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("line {message}")),
            "{text:?}: {error}"
        );
    }
    for text in ["a desc desc", "a,", "a asc b", ""] {
        assert!(Order::parse_list(text).is_err(), "{text}");
    }
    for text in [
        "count",
        "sum()",
        "terms(a)",
        "terms(a, -1)",
        "median(a)",
        "histogram(a, 0)",
        "histogram(a, 1e999)",
        "count() where",
    ] {
        assert!(Aggregate::parse(text).is_err(), "{text}");
    }
}

#[test]
fn long_lists_are_read_and_deep_nesting_is_refused() {
    let values: Vec<_> = (0..100_000).map(|id| format!("'advert-{id}'")).collect();
    let filter = Filter::parse(&format!("id IN ({})", values.join(", "))).unwrap();
    assert!(matches!(&filter, Filter::In(_, values) if values.len() == 100_000));
    assert!(find(filter).prepare().is_ok());
    let chain = vec!["a = 1"; 5_000].join(" AND ");
    assert!(find(Filter::parse(&chain).unwrap()).prepare().is_ok());
    for (open, close) in [("(", ")"), ("NOT ", ""), ("NOT (", ")")] {
        let nested = |depth: usize| format!("{}a = 1{}", open.repeat(depth), close.repeat(depth));
        assert!(Filter::parse(&nested(30)).is_ok());
        let error = Filter::parse(&nested(100_000)).unwrap_err();
        assert!(
            error.to_string().contains("nested more than 64 deep"),
            "{error}"
        );
    }
    assert!(Filter::parse(&",".repeat(2 << 20)).is_err());
    assert!(Filter::parse(&"a".repeat(17 << 20)).is_err());
}

#[test]
fn arithmetic_is_read_as_it_is_written() {
    let same = [
        ("sum(a*b)", "SUM(a * b)"),
        ("max(a + b * 2 - c.d / 4)", "MAX(a + b * 2 - c.d / 4)"),
        ("avg(((a + b)) * -2.5)", "AVG((a + b) * -2.5)"),
        ("min(a - (b - c))", "MIN(a - (b - c))"),
        ("min(a / (b * c) / \"x-y\")", "MIN(a / (b * c) / \"x-y\")"),
        ("sum((a))", "SUM(a)"),
    ];
    for (text, printed) in same {
        let aggregate = Aggregate::parse(text).unwrap();
        assert_eq!(aggregate.to_string(), printed);
        assert_eq!(Aggregate::parse(printed).unwrap(), aggregate);
        assert!(find_all().aggregate("x", aggregate).prepare().is_ok());
    }
    let deep = |brackets: usize| format!("sum({}a{})", "(".repeat(brackets), ")".repeat(brackets));
    let long = |operations: usize| format!("sum(a{})", " + a".repeat(operations));
    assert!(Aggregate::parse(&deep(64)).is_ok());
    assert!(Aggregate::parse(&long(64)).is_ok());
    let refused = [
        "sum(a +)",
        "sum(* a)",
        "sum(a b)",
        "sum((a)",
        "distinct(a + b)",
    ];
    let refused = refused.map(str::to_owned);
    for text in refused
        .iter()
        .chain([&deep(65), &deep(100_000), &long(65), &long(100_000)])
    {
        assert!(
            Aggregate::parse(text).is_err(),
            "{}",
            &text[..text.len().min(40)]
        );
    }
    for text in ["sum(1 + 2)", "sum(a * 1e999)"] {
        let aggregate = Aggregate::parse(text).unwrap();
        assert!(
            find_all().aggregate("x", aggregate).prepare().is_err(),
            "{text}"
        );
    }
}
