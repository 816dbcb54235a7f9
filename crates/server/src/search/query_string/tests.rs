use super::*;

fn read(query: Json) -> Outcome<String> {
    let mut texts = WholeTexts::default();
    let (name, body) = query.as_object().unwrap().iter().next().unwrap();
    let body = body.as_object().unwrap();
    let filter = match name.as_str() {
        "simple" => simple_query_string(body, &mut texts, 0),
        _ => query_string(body, &mut texts, 0),
    };
    filter.map(|filter| filter.to_string())
}

fn line(query: &str) -> String {
    read(json!({"line": {"query": query}})).unwrap_or_else(|failure| failure.reason().to_string())
}

#[test]
fn lines_are_filters() {
    for (query, expected) in [
        ("*", "TRUE"),
        ("*:*", "TRUE"),
        ("", "FALSE"),
        ("a:x", "a IN ('x')"),
        ("a : x", "a IN ('x')"),
        ("a:5", "a IN (5)"),
        ("a:007", "a IN ('007')"),
        ("a:true", "a IN (TRUE)"),
        (r#"a:"x y\"z""#, "a IN ('x y\"z')"),
        (r"a\:b:x\ y\*", "\"a:b\" IN ('x y*')"),
        ("a:2026-01-31", "a IN ('2026-01-31')"),
        ("a:w*b?", "a LIKE 'w%b_'"),
        ("a:*", "a IS NOT NULL"),
        ("_exists_:a.b", "a.b IS NOT NULL"),
        ("a:x b:y", "a IN ('x') OR b IN ('y')"),
        ("a:x AND b:y", "a IN ('x') AND b IN ('y')"),
        ("a:x && b:y", "a IN ('x') AND b IN ('y')"),
        ("a:x || b:y", "a IN ('x') OR b IN ('y')"),
        ("NOT a:x", "a NOT IN ('x')"),
        ("-a:x", "a NOT IN ('x')"),
        ("!a:x", "a NOT IN ('x')"),
        ("a:x NOT b:y", "a IN ('x') AND b NOT IN ('y')"),
        ("+a:x b:y", "a IN ('x')"),
        // As in Lucene, the last is optional beside two that are required.
        ("a:x AND b:y OR c:z", "a IN ('x') AND b IN ('y')"),
        (
            "(a:x AND b:y) OR c:z",
            "a IN ('x') AND b IN ('y') OR c IN ('z')",
        ),
        ("a:(x OR y)", "a IN ('x') OR a IN ('y')"),
        ("a:(x -y)", "a IN ('x') AND a NOT IN ('y')"),
        ("a:[1 TO 5]", "a BETWEEN 1 AND 5"),
        ("a:{1 TO *}", "a > 1"),
        ("a:[* TO x}", "a < 'x'"),
        ("a:[* TO *]", "a IS NOT NULL"),
        ("a:>=5", "a >= 5"),
        ("a:(>1 AND <3)", "a > 1 AND a < 3"),
        (
            "a:[2026-01-31T10:00:00Z TO now]",
            "a BETWEEN '2026-01-31T10:00:00Z' AND 'now'",
        ),
        ("a:x^1 b:y", "a IN ('x') OR b IN ('y')"),
        ("a:AND\\ x", "a IN ('AND x')"),
        ("a:(x y)", "a IN ('x y')"),
        ("a:(x  y\\ z)", "a IN ('x y z')"),
        ("a:(x y AND z)", "a IN ('y') AND a IN ('z')"),
        ("a:(x y z AND w)", "a IN ('z') AND a IN ('w')"),
        ("a:(x y z OR w)", "a IN ('x y') OR a IN ('z') OR a IN ('w')"),
        ("a:(x OR y z)", "a IN ('x') OR a IN ('y') OR a IN ('z')"),
        ("a:(x y NOT z)", "a IN ('x y') AND a NOT IN ('z')"),
        ("a:(x y*)", "a IN ('x') OR a LIKE 'y%'"),
        ("a:(x y -z)", "a IN ('x y') AND a NOT IN ('z')"),
        ("a:(x y b:z)", "a IN ('x y') OR b IN ('z')"),
        (r"a:/x\/[0-9]/^1 b:y", r"a REGEXP 'x\/[0-9]' OR b IN ('y')"),
        ("a:(x /y/)", "a IN ('x') OR a REGEXP 'y'"),
        (
            "a:(x y~ z~1)",
            "a IN ('x') OR FUZZY(a, 'y', 0, 0) OR FUZZY(a, 'z', 1, 0)",
        ),
    ] {
        assert_eq!(line(query), expected, "{query}");
    }
}

#[test]
fn what_has_no_exact_meaning_is_refused_by_name() {
    for (query, part) in [
        ("word", "a word without a field"),
        ("a:x~9", "[fuzziness]"),
        ("a:x*~", "[~]"),
        ("a:\"x y\"~2", "[~]"),
        ("a:x^2", "boost must be 1"),
        ("a:/x", "regular expression is not closed"),
        ("a.*:x", "pattern of fields"),
        ("(a:x", "not closed"),
        ("a:x)", "closes no bracket"),
        ("a:\"x", "quote is not closed"),
        ("AND a:x", "nothing before it"),
        ("a:x AND", "nothing behind it"),
        ("a:[1 5]", "[a TO b]"),
        ("a:[1 TO 5", "ends with"),
        ("a:", "nothing"),
        ("_version:1", "[_version]"),
        ("a:10:20", "[:]"),
        (&"(".repeat(100), "too deep"),
        (&"a:x ".repeat(1_025), "more than 1024 clauses"),
    ] {
        let failure = line(query);
        assert!(failure.contains(part), "{query}: {failure}");
    }
}

#[test]
fn words_without_a_field_are_about_the_default_fields() {
    let with = |query: Json| read(json!({ "line": query })).unwrap();
    assert_eq!(
        with(json!({"query": "x", "default_field": "a"})),
        "a IN ('x')"
    );
    assert_eq!(
        with(json!({"query": "x", "fields": ["a", "b"]})),
        "a IN ('x') OR b IN ('x')"
    );
    assert_eq!(
        with(json!({"query": "a:x b:y c:z", "default_operator": "AND"})),
        "a IN ('x') AND b IN ('y') AND c IN ('z')"
    );
    assert_eq!(
        with(json!({"query": "a:x OR b:y c:z", "default_operator": "and"})),
        "c IN ('z')"
    );
    for refused in [
        json!({"query": "x", "fields": ["a^2"]}),
        json!({"query": "x", "fields": ["a*"]}),
        json!({"query": "a:x", "lenient": true}),
        json!({"query": "a:x", "analyzer": "standard"}),
        json!({"query": "a:x", "minimum_should_match": 2}),
        json!({"fields": ["a"]}),
    ] {
        assert!(read(json!({ "line": refused })).is_err());
    }
}

#[test]
fn simple_lines_are_read_from_left_to_right() {
    let simple = |query: &str| {
        let read = read(json!({"simple": {"query": query, "fields": ["a"]}}));
        read.unwrap_or_else(|failure| failure.reason().to_string())
    };
    for (query, expected) in [
        ("x", "a IN ('x')"),
        ("x y", "a IN ('x') OR a IN ('y')"),
        ("x + y", "a IN ('x') AND a IN ('y')"),
        ("x | y + z", "(a IN ('x') OR a IN ('y')) AND a IN ('z')"),
        ("x + -y", "a IN ('x') AND a NOT IN ('y')"),
        ("(x | y) + z", "(a IN ('x') OR a IN ('y')) AND a IN ('z')"),
        ("\"x y\"", "a IN ('x y')"),
        ("x*", "a LIKE 'x%'"),
        ("web-1", "a IN ('web-1')"),
        (")", "FALSE"),
        ("", "FALSE"),
    ] {
        assert_eq!(simple(query), expected, "{query}");
    }
    for (query, part) in [("x~1", "[~]"), ("\"x", "quote"), ("(x", "bracket")] {
        assert!(simple(query).contains(part), "{query}");
    }
}
