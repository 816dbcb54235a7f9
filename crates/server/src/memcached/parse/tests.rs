use super::*;
use proptest::prelude::*;

const VALUE_BYTES_MAX: usize = 300;

/// The requests that a parser returns for input in these pieces, and the most bytes that it made
/// its caller hold.
fn requests<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> (Vec<String>, usize) {
    let mut parser = Parser::new(VALUE_BYTES_MAX);
    let (mut requests, mut held, mut held_max) = (Vec::new(), Vec::new(), 0);
    for piece in pieces {
        held.extend_from_slice(piece);
        let mut rest = held.as_slice();
        loop {
            let before = rest.len();
            match parser.next(&mut rest) {
                Step::Request(request) => requests.push(format!("{request:?}")),
                Step::More(bytes) => {
                    assert!(rest.len() < bytes, "it waits for what it has");
                    held_max = held_max.max(bytes);
                    break;
                }
            }
            assert!(rest.len() <= before);
        }
        held = rest.to_vec();
    }
    (requests, held_max)
}

/// Words of the protocol and others, so that lines are often almost right.
fn word() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<&[u8]> = vec![
        b"get",
        b"gets",
        b"gat",
        b"gats",
        b"set",
        b"add",
        b"cas",
        b"append",
        b"replace",
        b"delete",
        b"incr",
        b"decr",
        b"touch",
        b"mg",
        b"ms",
        b"md",
        b"ma",
        b"mn",
        b"version",
        b"verbosity",
        b"stats",
        b"flush_all",
        b"quit",
        b"key",
        b"a",
        b"0",
        b"1",
        b"5",
        b"12",
        b"-1",
        b"301",
        b"noreply",
        b"c",
        b"b",
        b"v",
        b"q",
        b"k",
        b"Oabc",
        b"MA",
        b"F7",
        b"C5",
        b"S9",
        b"YQ==",
        b"18446744073709551616",
        b"HTTP/1.1",
        b"\r",
        b"\xff\xfe",
    ];
    prop_oneof![
        12 => prop::sample::select(known).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..8),
        1 => (245_usize..260).prop_map(|length| vec![b'k'; length]),
        1 => Just(vec![b'k'; LINE_BYTES_MAX]),
    ]
}

/// A line; often one that announces a value, which follows.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let end = prop::sample::select(vec!["\r\n", "\r\n", "\r\n", "\n", ""]);
    let words = prop::collection::vec(word(), 0..8).prop_map(|words| words.join(&b' '));
    let value =
        (0_usize..320, any::<bool>(), any::<bool>()).prop_map(|(bytes, is_meta, noreply)| {
            let head = match is_meta {
                true => format!("ms key {bytes} c"),
                false => format!(
                    "set key 1 0 {bytes}{}",
                    if noreply { " noreply" } else { "" }
                ),
            };
            [head.as_bytes(), b"\r\n", &vec![b'x'; bytes]].concat()
        });
    let body = prop_oneof![3 => words, 1 => value];
    (body, end).prop_map(|(body, end)| [&body, end.as_bytes()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn however_the_bytes_are_cut_the_requests_are_the_same(
        lines in prop::collection::vec(line(), 1..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let input = lines.concat();
        let (whole, held) = requests([input.as_slice()]);
        // At most one line, or one value and the line before it.
        prop_assert!(held <= LINE_BYTES_MAX + VALUE_BYTES_MAX + LINE_END.len());
        let (by_byte, _) = requests(input.chunks(1));
        prop_assert_eq!(&by_byte, &whole);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([input.len()]) {
            pieces.push(&input[from..cut]);
            from = cut;
        }
        prop_assert_eq!(requests(pieces).0, whole);
    }

    #[test]
    fn any_bytes_are_parsed_without_a_panic(input in prop::collection::vec(any::<u8>(), 0..3000)) {
        prop_assert_eq!(requests(input.chunks(7)).0, requests([input.as_slice()]).0);
    }
}

#[test]
fn a_refused_value_is_never_read_as_a_command() {
    let key = "k".repeat(251);
    for head in [
        format!("set {key} 0 0 7"),
        "set k x 0 7".into(),
        "set k 0 6x 7".into(),
        "cas k 0 0 7 x".into(),
        "ms k 7 h".into(),
        "ms k 7 MQ".into(),
        "ms ??? 7 b".into(),
    ] {
        let input = format!("{head}\r\nversion\r\nmn\r\n");
        let (found, _) = requests([input.as_bytes()]);
        assert_eq!(found.len(), 2, "{head}: {found:?}");
        assert!(found[0].contains("CLIENT_ERROR"), "{head}: {found:?}");
        assert_eq!(found[1], "MetaNoop", "{head}");
    }
    let long = format!("set k 0 0 301\r\n{}\r\nmn\r\n", "x".repeat(301));
    let (found, held) = requests(long.as_bytes().chunks(10));
    assert!(
        found[0].contains("too large") && found[1] == "MetaNoop",
        "{found:?}"
    );
    assert!(
        held < VALUE_BYTES_MAX,
        "a value over the limit is not waited for whole"
    );
}

#[test]
fn nothing_is_parsed_once_the_start_of_the_next_request_is_unknown() {
    let long = "x".repeat(LINE_BYTES_MAX);
    for input in [
        "set k 0 0 -1\r\nversion\r\n",
        "set k 0 0 9999999999\r\nversion\r\n",
        "set k 0 0\r\nversion\r\n",
        "ms k\r\nversion\r\n",
        "ms k ten\r\nversion\r\n",
        "set k 0 0 2\r\nabc\r\nversion\r\n",
        "set k 0 0 301\r\nabc\r\nversion\r\n".repeat(20).as_str(),
        "POST / HTTP/1.1\r\nversion\r\n",
        "quit\r\nversion\r\n",
        &format!("{long}\r\nversion\r\n"),
    ] {
        let (found, _) = requests([input.as_bytes()]);
        assert!(!found.contains(&"Version".to_owned()), "{input}: {found:?}");
        assert!(
            found
                .last()
                .is_some_and(|last| last == "Quit" || last.contains("closes: true")),
            "{input}: {found:?}"
        );
    }
}

#[test]
fn a_line_of_keys_has_no_longest_length() {
    let keys: Vec<String> = (0..5000).map(|n| format!("key-{n}")).collect();
    let input = format!("get {}\r\nmn\r\n", keys.join(" "));
    let (found, held) = requests(input.as_bytes().chunks(100));
    assert_eq!(found.len(), keys.len() + 2);
    assert!(held <= KEY_BYTES_MAX + 2);
}
