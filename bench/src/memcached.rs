//! Debian's memcached and `quire serve` beside it: the same documents, the same client, over
//! loopback, in one run.
//!
//! Both are given generated adverts by `set`, as JSON text, and have memory for all of them. Then
//! clients get random keys, each over a connection and a thread of its own: from one server for a
//! few seconds, then from the other, and so on in pairs, the order turned round each time. Every
//! answer is compared byte by byte. A pair gives one ratio; reported are the medians and the
//! spread.

use crate::measure::{Latencies, in_directory, median};
use crate::results::{Better, Results};
use crate::server::Server;
use crate::{Result, adverts};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Documents
    #[arg(long, default_value_t = 100_000)]
    count: u64,
    /// Connections, each with a thread of the client
    #[arg(long, default_value_t = 8)]
    connections: u64,
    /// Pairs of slices, for each way of reading
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Seconds of a slice
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Only ways of reading whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// The `quire` command
    #[arg(long, default_value = "../target/release/quire")]
    quire: PathBuf,
    /// The `memcached` command
    #[arg(long, default_value = "memcached")]
    memcached: PathBuf,
    /// Where the database is kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-memcached")]
    dir: PathBuf,
}

/// A way of reading: the keys in a command, and the commands sent before the first answer is read.
struct Way {
    name: &'static str,
    keys: usize,
    pipelined: usize,
}

const WAYS: [Way; 3] = [
    Way {
        name: "one key",
        keys: 1,
        pipelined: 1,
    },
    Way {
        name: "one key, 16 pipelined",
        keys: 1,
        pipelined: 16,
    },
    Way {
        name: "20 keys",
        keys: 20,
        pipelined: 1,
    },
];

/// What one slice measured.
#[derive(Debug, Clone, Copy)]
struct Slice {
    requests_per_second: f64,
    p50_micros: f64,
    p99_micros: f64,
    /// CPU time of the server, for each request.
    cpu_micros: f64,
}

/// One document: its key and the answer.
struct Document {
    key: String,
    json: Vec<u8>,
}

impl Plan {
    pub(crate) fn run(&self, results: &Results) -> Result<()> {
        in_directory(&self.dir, || self.measure(results))
    }

    fn measure(&self, results: &Results) -> Result<()> {
        let documents: Vec<Document> = (0..self.count)
            .map(|number| {
                let mut json = String::new();
                adverts::write(number, &mut json);
                Document {
                    key: format!("adverts:{}", adverts::key(number)),
                    json: json.into_bytes(),
                }
            })
            .collect();
        let servers = [self.start_memcached()?, self.start_quire()?];
        for server in &servers {
            load(server.address, &documents)?;
        }
        println!(
            "| {} connections | memcached, requests/s | Quire, requests/s \
             | ratio, median (least to most) | p50, µs | p99, µs \
             | CPU of the server, µs a request |",
            self.connections
        );
        println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
        for way in WAYS.iter().filter(|way| way.name.contains(&self.only)) {
            self.pairs(results, way, &servers, &documents)?;
        }
        Ok(())
    }

    fn start_memcached(&self) -> Result<Server> {
        let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(&self.memcached);
        command
            .args(["-u", "nobody", "-l", "127.0.0.1", "-U", "0", "-m", "1024"])
            .args(["-p", &free.port().to_string()]);
        let server = Server::start(&mut command, free)?;
        let begun = Instant::now();
        while TcpStream::connect(server.address).is_err() {
            if begun.elapsed() > Duration::from_secs(10) {
                return Err("memcached does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    fn start_quire(&self) -> Result<Server> {
        let mut command = Command::new(&self.quire);
        command.arg("serve").arg(self.dir.join("db")).args([
            "--create",
            "--memcached",
            "127.0.0.1:0",
            "--memory",
            "1GiB",
        ]);
        Server::start_quire(&mut command, "memcached")
    }

    fn pairs(
        &self,
        results: &Results,
        way: &Way,
        servers: &[Server; 2],
        documents: &[Document],
    ) -> Result<()> {
        let mut slices = [Vec::new(), Vec::new()];
        // The first slices find everything cold: they are not counted.
        for server in servers {
            self.slice(way, server, documents)?;
        }
        for pair in 0..self.pairs {
            for turn in 0..2 {
                let which = (pair + turn) % 2;
                let (Some(server), Some(slices)) = (servers.get(which), slices.get_mut(which))
                else {
                    continue;
                };
                let slice = self.slice(way, server, documents)?;
                eprintln!("{}, pair {pair}, server {which}: {slice:?}", way.name);
                slices.push(slice);
            }
        }
        let [memcached, quire] = slices;
        let ratios: Vec<f64> = memcached
            .iter()
            .zip(&quire)
            .map(|(memcached, quire)| quire.requests_per_second / memcached.requests_per_second)
            .collect();
        let ratio_unit = "ratio to memcached";
        results.add(way.name, ratio_unit, Better::More, "quire", &ratios);
        results.aim(way.name, ratio_unit, Better::More, 0.8);
        let add = |name: &str, unit, better, of: fn(&Slice) -> f64| {
            for (engine, slices) in [("quire", &quire), ("memcached", &memcached)] {
                let values: Vec<_> = slices.iter().map(of).collect();
                results.add(name, unit, better, engine, &values);
            }
        };
        let named = |figure: &str| format!("{}, {figure}", way.name);
        let less = Better::Less;
        add(way.name, "requests/s", Better::More, |slice| {
            slice.requests_per_second
        });
        add(&named("p50"), "µs", less, |slice| slice.p50_micros);
        add(&named("p99"), "µs", less, |slice| slice.p99_micros);
        add(&named("CPU of the server"), "µs", less, |slice| {
            slice.cpu_micros
        });
        let middle =
            |slices: &[Slice], of: fn(&Slice) -> f64| median(slices.iter().map(of).collect());
        let both = |of: fn(&Slice) -> f64| {
            format!(
                "{:.0} and {:.0}",
                middle(&memcached, of),
                middle(&quire, of)
            )
        };
        println!(
            "| {} | {:.0} | {:.0} | {} | {} | {} | {} |",
            way.name,
            middle(&memcached, |slice| slice.requests_per_second),
            middle(&quire, |slice| slice.requests_per_second),
            spread(ratios),
            both(|slice| slice.p50_micros),
            both(|slice| slice.p99_micros),
            both(|slice| slice.cpu_micros),
        );
        Ok(())
    }

    /// Reads from one server for the time of a slice.
    fn slice(&self, way: &Way, server: &Server, documents: &[Document]) -> Result<Slice> {
        let is_over = AtomicBool::new(false);
        let (address, cpu_seconds) = (server.address, server.cpu_seconds()?);
        let begun = Instant::now();
        let (mut all, mut requests) = (Latencies::default(), 0);
        std::thread::scope(|scope| -> Result<()> {
            let mut clients = Vec::new();
            for client in 0..self.connections {
                let is_over = &is_over;
                clients.push(scope.spawn(move || read(way, address, documents, client, is_over)));
            }
            std::thread::sleep(Duration::from_secs_f64(self.seconds));
            is_over.store(true, Ordering::Relaxed);
            for client in clients {
                let (latencies, answered) = client.join().map_err(|_| "a client panicked")??;
                all.append(latencies);
                requests += answered;
            }
            Ok(())
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let [p50_micros, p99_micros] = all.micros([0.5, 0.99]);
        Ok(Slice {
            requests_per_second: requests as f64 / seconds,
            p50_micros,
            p99_micros,
            cpu_micros: (server.cpu_seconds()? - cpu_seconds) * 1e6 / requests as f64,
        })
    }
}

/// A median, with the least and the most.
fn spread(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    let end = |ratio: Option<&f64>| ratio.copied().unwrap_or(f64::NAN);
    let (least, most) = (end(ratios.first()), end(ratios.last()));
    format!("{:.3} ({least:.3} to {most:.3})", median(ratios))
}

/// Stores all documents, many at once, and waits for each answer.
fn load(address: SocketAddr, documents: &[Document]) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    for documents in documents.chunks(40) {
        let mut requests = Vec::new();
        for Document { key, json } in documents {
            requests.extend(format!("set {key} 0 0 {}\r\n", json.len()).bytes());
            requests.extend_from_slice(json);
            requests.extend_from_slice(b"\r\n");
        }
        stream.write_all(&requests)?;
        for _ in documents {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if line != "STORED\r\n" {
                return Err(format!("a document was not stored: {line}").into());
            }
        }
    }
    Ok(())
}

/// One client: reads random documents until the time is over, and compares every answer. Returns
/// the time of each round trip, and the number of commands answered.
fn read(
    way: &Way,
    address: SocketAddr,
    documents: &[Document],
    client: u64,
    is_over: &AtomicBool,
) -> Result<(Latencies, u64)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut random = adverts::Random::new(client);
    let (mut latencies, mut answered) = (Latencies::with_capacity(1 << 20), 0);
    let (mut requests, mut expected, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        requests.clear();
        expected.clear();
        for _ in 0..way.pipelined {
            requests.extend_from_slice(b"get");
            for _ in 0..way.keys {
                let number = random.below(documents.len() as u64);
                let Some(document) = documents.get(number as usize) else {
                    return Err("no such document".into());
                };
                requests.push(b' ');
                requests.extend_from_slice(document.key.as_bytes());
                expected.extend_from_slice(b"VALUE ");
                expected.extend_from_slice(document.key.as_bytes());
                write!(expected, " 0 {}\r\n", document.json.len())?;
                expected.extend_from_slice(&document.json);
                expected.extend_from_slice(b"\r\n");
            }
            requests.extend_from_slice(b"\r\n");
            expected.extend_from_slice(b"END\r\n");
        }
        answers.resize(expected.len(), 0);
        latencies.time(|| -> std::io::Result<()> {
            stream.write_all(&requests)?;
            stream.read_exact(&mut answers)
        })?;
        if answers != expected {
            return Err("an answer is not what was stored".into());
        }
        answered += way.pipelined as u64;
    }
    Ok((latencies, answered))
}
