//! Sockets: limits, slow clients, shutdown.

use std::time::Duration;

use quire_server::{ErrorKind, ServerOptions, bind, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::site::{Listening, open, read_all, read_until};

const LONG: Duration = Duration::from_secs(120);

fn impatient(idle_millis: u64) -> ServerOptions {
    ServerOptions {
        idle_timeout: Duration::from_millis(idle_millis),
        ..ServerOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_kept_and_requests_may_follow_at_once() {
    let site = Listening::new(ServerOptions::default()).await;
    let request = "PUT /jobs/_doc/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n\r\n\
                   {\"a\":1}\
                   GET /jobs/_source/1 HTTP/1.1\r\nHost: localhost\r\n\r\n\
                   GET /jobs/_source/1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let reply = timeout(LONG, site.exchange(request.as_bytes()))
        .await
        .unwrap();
    assert_eq!(reply.matches("HTTP/1.1 200 OK").count(), 2, "{reply}");
    assert_eq!(reply.matches("HTTP/1.1 201 Created").count(), 1, "{reply}");
    assert_eq!(reply.matches("{\"a\":1}").count(), 2, "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_waits_for_100_continue_gets_it() {
    let site = Listening::new(ServerOptions::default()).await;
    let mut stream = site.connect().await;
    let head = "PUT /jobs/_doc/1 HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
                Content-Length: 2\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    timeout(LONG, read_until(&mut stream, "100 Continue\r\n\r\n"))
        .await
        .unwrap();
    stream.write_all(b"{}").await.unwrap();
    timeout(LONG, read_until(&mut stream, "201 Created"))
        .await
        .unwrap();

    // A refusal comes without it, and the client does not send the body.
    let head = "POST /_bulk HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
                Content-Length: 999999999\r\n\r\n";
    let reply = timeout(LONG, site.exchange(head.as_bytes())).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 413 "), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn http_2_is_spoken_to_clients_that_begin_with_it() {
    let site = Listening::new(ServerOptions::default()).await;
    let mut stream = site.connect().await;
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    let mut head = [0; 9];
    timeout(LONG, stream.read_exact(&mut head))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (head[3], &head[5..]),
        (4, &[0, 0, 0, 0][..]),
        "not a frame of settings"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_and_urls_that_are_too_long_are_refused() {
    let site = Listening::new(ServerOptions::default()).await;
    let long_url = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "x".repeat(70_000)
    );
    let long_header = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX-A: {}\r\n\r\n",
        "x".repeat(70_000)
    );
    let many = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        "X-A: 1\r\n".repeat(500)
    );
    for request in [long_url, long_header, many] {
        let reply = timeout(LONG, site.exchange(request.as_bytes()))
            .await
            .unwrap();
        assert!(
            reply.starts_with("HTTP/1.1 431 ") || reply.starts_with("HTTP/1.1 414 "),
            "{reply:?}"
        );
    }
    let reply = timeout(LONG, site.exchange(b"nonsense\r\n\r\nand more of it......"))
        .await
        .unwrap();
    assert!(reply.starts_with("HTTP/1.1 400 "), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_neither_send_nor_read_are_disconnected() {
    let site = Listening::new(impatient(400)).await;
    let begun = Instant::now();
    for start in [
        "",
        "PRI * HT",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX-Unfinished: yes",
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        timeout(LONG, site.exchange(start.as_bytes()))
            .await
            .unwrap();
    }
    let half = "PUT /jobs/_doc/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"a\":";
    let reply = timeout(LONG, site.exchange(half.as_bytes())).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 408 "), "{reply:?}");
    let half = "POST /jobs/_bulk HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\
                \r\n5\r\n{\"ind\r\n";
    let reply = timeout(LONG, site.exchange(half.as_bytes())).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 408 "), "{reply:?}");
    assert!(begun.elapsed() >= Duration::from_millis(6 * 400));
    assert!(site.database.collections().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_disconnected_and_its_memory_released() {
    let site = Listening::new(impatient(3000)).await;
    let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(12 << 20));
    let head = format!(
        "PUT /jobs/_doc/1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n",
        large.len()
    );
    let mut stream = site.connect().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(large.as_bytes()).await.unwrap();
    assert!(
        timeout(LONG, read_all(&mut stream))
            .await
            .unwrap()
            .starts_with("HTTP/1.1 201 ")
    );

    // Each answer takes 12 of 64 MiB while its client does not read it, and three times as much
    // while it is made: the others wait.
    let mut readers = Vec::new();
    for _ in 0..5 {
        let mut stream = site.connect().await;
        stream
            .write_all(b"GET /jobs/_doc/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .await
            .unwrap();
        readers.push(stream);
    }
    let metrics = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let held = async |wanted: &dyn Fn(u64) -> bool| loop {
        let text = site.exchange(metrics.as_bytes()).await;
        let line = text
            .lines()
            .find(|line| line.starts_with("quire_http_buffer_bytes "))
            .unwrap()
            .to_owned();
        if wanted(line.split(' ').nth(1).unwrap().parse().unwrap()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    timeout(LONG, held(&|bytes| bytes >= 36 << 20))
        .await
        .unwrap();
    let one_more = site
        .exchange(b"GET /jobs/_doc/1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await;
    assert!(
        one_more.starts_with("HTTP/1.1 200 "),
        "{}",
        &one_more[..100.min(one_more.len())]
    );
    timeout(LONG, held(&|bytes| bytes == 0)).await.unwrap();
    drop(readers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_takes_the_place_of_the_oldest_idle_connection_at_once() {
    let site = Listening::new(ServerOptions {
        connections_max: 3,
        ..ServerOptions::default()
    })
    .await;
    let head = b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut old = site.connect().await;
    old.write_all(head).await.unwrap();
    timeout(LONG, read_until(&mut old, "200 OK")).await.unwrap();
    // One that sends half a request is idle too.
    let mut half = site.connect().await;
    half.write_all(b"GET / HT").await.unwrap();
    let mut busy = in_flight(&site).await;
    for _ in 0..2 {
        let mut next = site.connect().await;
        next.write_all(head).await.unwrap();
        timeout(LONG, read_until(&mut next, "200 OK"))
            .await
            .unwrap();
        drop(next);
    }
    let mut third = site.connect().await;
    third.write_all(head).await.unwrap();
    timeout(LONG, read_until(&mut third, "200 OK"))
        .await
        .unwrap();
    let mut fourth = site.connect().await;
    fourth.write_all(head).await.unwrap();
    timeout(LONG, read_until(&mut fourth, "200 OK"))
        .await
        .unwrap();
    timeout(LONG, read_all(&mut old)).await.unwrap();
    busy.write_all(b":1}").await.unwrap();
    timeout(LONG, read_until(&mut busy, "201 Created"))
        .await
        .unwrap();
}

/// A connection of HTTP/2 that has requested `/`, and read the answer.
async fn served_by_http2(site: &Listening) -> TcpStream {
    let mut client = site.connect().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    // The fields: GET, the scheme and / by their numbers, and the authority.
    let request = b"\0\0\x0E\x01\x05\0\0\0\x01\x82\x86\x84\x01\x09localhost";
    client
        .write_all(&[&preface[..], request].concat())
        .await
        .unwrap();
    timeout(LONG, read_until(&mut client, "\"version\""))
        .await
        .unwrap();
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_http2_takes_two_places_if_there_are_two() {
    for (places, stay) in [(4, 2), (5, 2), (6, 3), (1, 1)] {
        let site = Listening::new(ServerOptions {
            connections_max: places,
            ..ServerOptions::default()
        })
        .await;
        let mut oldest = served_by_http2(&site).await;
        let mut others = Vec::new();
        for _ in 1..stay {
            others.push(served_by_http2(&site).await);
        }
        let waited = timeout(Duration::from_millis(200), read_all(&mut oldest)).await;
        assert!(waited.is_err(), "{places}");
        let _newest = served_by_http2(&site).await;
        timeout(LONG, read_all(&mut oldest)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_over_the_limit_wait_for_those_that_are_busy() {
    let site = Listening::new(ServerOptions {
        connections_max: 2,
        metrics_listen: Some("127.0.0.1:0".parse().unwrap()),
        ..ServerOptions::default()
    })
    .await;
    site.database
        .collection_or_create("a", Default::default)
        .unwrap();
    // The server works for both: it looks for changes.
    let (first, second) = (site.connect(), site.connect());
    let (mut first, mut second) = (first.await, second.await);
    for busy in [&mut first, &mut second] {
        let request = b"GET /a/_changes?wait_ms=60000 HTTP/1.1\r\nHost: localhost\r\n\r\n";
        busy.write_all(request).await.unwrap();
    }
    while site.requests_running().await < 2 {}
    let head = b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut third = site.connect().await;
    third.write_all(head).await.unwrap();
    let waited = timeout(Duration::from_millis(900), read_until(&mut third, "200 OK")).await;
    assert!(waited.is_err(), "{waited:?}");
    drop(first);
    timeout(LONG, read_until(&mut third, "200 OK"))
        .await
        .unwrap();
    drop(second);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_stall_give_their_places_to_newcomers() {
    let site = Listening::new(ServerOptions {
        connections_max: 2,
        ..ServerOptions::default()
    })
    .await;
    let (mut first, second) = (in_flight(&site).await, in_flight(&site).await);
    let mut third = site.connect().await;
    let head = b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    third.write_all(head).await.unwrap();
    timeout(LONG, read_until(&mut third, "200 OK"))
        .await
        .unwrap();
    // The one that has stalled for longest is closed.
    let answer = timeout(LONG, read_all(&mut first)).await.unwrap();
    assert!(!answer.contains("201"), "{answer}");
    drop(second);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_before_the_end_of_the_body_says_that_it_closes_and_is_read() {
    let site = Listening::new(ServerOptions {
        token: Some("t".into()),
        ..ServerOptions::default()
    })
    .await;
    let body = vec![b'x'; 3 << 20];
    for path in ["/jobs/_doc/1", "/no/such/route"] {
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = site.connect().await;
        stream.write_all(head.as_bytes()).await.unwrap();
        // The client sends all of it before it reads: no write may fail.
        for piece in body.chunks(64 << 10) {
            stream.write_all(piece).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let reply = timeout(LONG, read_all(&mut stream)).await.unwrap();
        assert!(reply.starts_with("HTTP/1.1 401 "), "{reply:?}");
        assert!(reply.contains("connection: close"), "{reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_can_be_read_in_two_ways_are_refused() {
    let site = Listening::new(ServerOptions::default()).await;
    let two_hosts = "GET / HTTP/1.1\r\nHost: localhost\r\nHost: 127.0.0.1\r\n\r\n";
    let reply = timeout(LONG, site.exchange(two_hosts.as_bytes()))
        .await
        .unwrap();
    assert!(reply.starts_with("HTTP/1.1 400 "), "{reply:?}");
    for coding in ["gzip, chunked", "gzip,chunked", "deflate, chunked"] {
        let request = format!(
            "PUT /jobs/_doc/1 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: {coding}\r\n\r\n\
             7\r\n{{\"a\":1}}\r\n0\r\n\r\n"
        );
        let reply = timeout(LONG, site.exchange(request.as_bytes()))
            .await
            .unwrap();
        assert!(reply.starts_with("HTTP/1.1 501 "), "{coding}: {reply:?}");
    }
    assert!(site.database.collections().is_empty());
}

/// A connection whose request is being answered: its handler waits for the rest of the body, `:1}`.
async fn in_flight(site: &Listening) -> TcpStream {
    let mut stream = site.connect().await;
    let head = "PUT /jobs/_doc/1 HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
                Content-Length: 7\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let told = read_until(&mut stream, "100 Continue\r\n\r\n");
    timeout(LONG, told).await.unwrap();
    stream.write_all(b"{\"a\"").await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_finishes_requests_in_flight_and_accepts_no_more() {
    let site = Listening::new(ServerOptions::default()).await;
    let idle = site.connect().await;
    let mut busy = in_flight(&site).await;
    site.begin_shutdown();
    let refused = async {
        while TcpStream::connect(site.address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, refused).await.unwrap();
    busy.write_all(b":1}").await.unwrap();
    let reply = timeout(LONG, read_all(&mut busy)).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 201 "), "{reply}");
    let database = timeout(LONG, site.ended()).await.unwrap();
    database.close().unwrap();
    drop(idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_does_not_wait_for_ever() {
    let options = ServerOptions {
        shutdown_timeout: Duration::from_millis(200),
        ..ServerOptions::default()
    };
    let site = Listening::new(options).await;
    let mut stuck = in_flight(&site).await;
    site.begin_shutdown();
    timeout(LONG, site.ended()).await.unwrap();
    assert_eq!(timeout(LONG, read_all(&mut stuck)).await.unwrap(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_does_not_wait_for_heads_that_do_not_end() {
    let options = ServerOptions {
        shutdown_timeout: Duration::from_secs(3_600),
        idle_timeout: Duration::from_secs(3_600),
        ..ServerOptions::default()
    };
    let site = Listening::new(options).await;
    let mut stalled = site.connect().await;
    let head = "GET /jobs/_count HTTP/1.1\r\nHost: local";
    stalled.write_all(head.as_bytes()).await.unwrap();
    let mut again = in_flight(&site).await;
    again.write_all(b":1}").await.unwrap();
    assert_ne!(again.read(&mut [0; 1 << 10]).await.unwrap(), 0);
    again.write_all(head.as_bytes()).await.unwrap();
    // Both have arrived once a later request was answered.
    drop(in_flight(&site).await);
    site.begin_shutdown();
    timeout(LONG, site.ended()).await.unwrap();
    drop((stalled, again));
}

#[tokio::test]
async fn an_address_open_to_other_machines_is_not_served_without_a_token() {
    let options = ServerOptions {
        listen: "0.0.0.0:0".parse().unwrap(),
        ..ServerOptions::default()
    };
    let error = bind(&options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("without a token"), "{error}");
    // Nor on a listener that the caller opened.
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let (database, _dir) = open();
    let error = serve(
        database,
        listener,
        ServerOptions::default(),
        std::future::pending(),
    )
    .await
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let guarded = ServerOptions {
        token: Some("t".into()),
        ..options
    };
    bind(&guarded).await.unwrap();
    let taken = ServerOptions {
        listen: bind(&guarded).await.unwrap().http.local_addr().unwrap(),
        ..guarded
    };
    let _taken = bind(&taken).await.unwrap();
    assert_eq!(bind(&taken).await.unwrap_err().kind(), ErrorKind::Io);
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_bulks_give_their_room_back_and_slow_ones_are_cut() {
    let site = Listening::new(impatient(10_000)).await;
    let head = "POST /jobs/_bulk HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
                1\r\n\n\r\n";
    let mut stalled = Vec::new();
    for _ in 0..64 {
        let mut stream = site.connect().await;
        stream.write_all(head.as_bytes()).await.unwrap();
        stalled.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let put = "PUT /jobs/_doc/1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
               Content-Length: 7\r\n\r\n{\"a\":1}";
    let mut cut = [0; 1];
    let reply = tokio::select! {
        reply = site.exchange(put.as_bytes()) => reply,
        _ = stalled[0].read(&mut cut) => panic!("it waited until a stalled one was cut"),
    };
    assert!(reply.starts_with("HTTP/1.1 201 "), "{reply:?}");
    // One that sends a byte now and then is cut all the same.
    let mut slow = stalled.pop().unwrap();
    let (mut answer, mut sender) = slow.split();
    let drip = async {
        while sender.write_all(b"1\r\n\n\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let mut reply = vec![0; 64];
    tokio::select! {
        () = drip => panic!("cut without an answer"),
        read = timeout(LONG, answer.read_exact(&mut reply)) => drop(read.unwrap().unwrap()),
    }
    assert!(reply.starts_with(b"HTTP/1.1 408 "), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn multi_gets_of_large_documents_wait_for_memory_and_are_whole() {
    let site = Listening::new(impatient(5_000)).await;
    let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(12 << 20));
    let put = format!(
        "PUT /jobs/_doc/1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{large}",
        large.len()
    );
    let reply = timeout(LONG, site.exchange(put.as_bytes())).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 201 "));
    let ids = format!(
        r#"{{"ids":[{}]}}"#,
        ["1"; 2].map(|id| format!("\"{id}\"")).join(",")
    );
    let request = format!(
        "POST /jobs/_mget HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{ids}",
        ids.len()
    );
    let mut clients = Vec::new();
    for _ in 0..12 {
        let mut stream = site.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        clients.push(stream);
    }
    // 64 MiB are enough to make one at a time, with two that are being read.
    let clients = clients.into_iter().map(|mut client| {
        tokio::spawn(async move { timeout(LONG, read_all(&mut client)).await.unwrap() })
    });
    for client in clients.collect::<Vec<_>>() {
        let answer = client.await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200 "),
            "{:?}",
            answer.get(..300)
        );
        assert!(answer.len() > 24 << 20, "{} bytes", answer.len());
    }
}

/// Idle strangers on a port with 64 places: the last ones are kept, so that some are closed
/// although nobody else has come.
async fn last_places_are_kept(address: std::net::SocketAddr) {
    let connect = |_| tokio::net::TcpStream::connect(address);
    let mut strangers = futures_util::future::try_join_all((0..64).map(connect))
        .await
        .unwrap();
    let ends = strangers.iter_mut().map(|one| Box::pin(read_all(one)));
    let (answer, ..) = timeout(LONG, futures_util::future::select_all(ends))
        .await
        .unwrap();
    assert_eq!(answer, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_do_not_keep_the_last_places_of_either_port() {
    let site = Listening::new(ServerOptions {
        connections_max: 64,
        memcached: Some(quire_server::MemcachedOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..quire_server::MemcachedOptions::default()
        }),
        ..ServerOptions::default()
    })
    .await;
    last_places_are_kept(site.address).await;
    last_places_are_kept(site.memcached.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_is_answered_beside_bulks_that_stall() {
    let site = Listening::new(ServerOptions::default()).await;
    let mut bulks = Vec::new();
    for _ in 0..64 {
        let mut bulk = site.connect().await;
        let head = "POST /a/_bulk HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n";
        bulk.write_all(head.as_bytes()).await.unwrap();
        bulk.write_all(b"{\"index\":{}}\n{\"n\":1}\n{\"in")
            .await
            .unwrap();
        bulks.push(bulk);
    }
    site.database
        .collection_or_create("a", Default::default)
        .unwrap();
    let query = "{\"query\":{\"term\":{\"n\":2}}}";
    let search = format!(
        "POST /a/_search HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{query}",
        query.len()
    );
    let answer = timeout(LONG, site.exchange(search.as_bytes()))
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
