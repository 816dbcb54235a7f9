//! Runs the torture tests of the `quire` binary on the real machine; `make torture` starts it. See
//! CONTRIBUTING.md.

#![allow(clippy::disallowed_methods, reason = "tests call the machine directly")]

use clap::Parser;
use quire_tests::torture::{Plan, Result, Summary, While, own_name, run, take_down};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// Torture the quire binary: kills, power cuts, faults; check after each that nothing acknowledged
/// was lost
#[derive(Debug, Parser)]
#[command(name = "torture")]
struct Arguments {
    /// The binary to test
    #[arg(long, default_value = "target/release/quire")]
    quire: PathBuf,
    /// How long to run; the round that is running then ends first
    #[arg(long, value_name = "MINUTES", default_value_t = 10.0)]
    minutes: f64,
    /// The most rounds
    #[arg(long, value_name = "N", default_value_t = u64::MAX)]
    rounds: u64,
    /// Only this kind of round; may be given more than once
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    /// The seed of the first round; with --kind and --rounds 1, repeats a round [default: by the
    /// clock]
    #[arg(long)]
    seed: Option<u64>,
    /// The directory to work in, on the disk to be used; files of failed rounds are kept in it
    #[arg(long, default_value = "target/torture")]
    dir: PathBuf,
    /// End with the summary as one line of JSON on standard output
    #[arg(long)]
    json: bool,
}

static STOP: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match torment(&arguments) {
        Ok(summary) => {
            match arguments.json {
                true => println!("{}", summary.json()),
                false => println!("{}", summary.text()),
            }
            ExitCode::from(u8::from(!summary.is_clean()))
        }
        Err(error) => {
            eprintln!("torture: {error}");
            ExitCode::from(2)
        }
    }
}

fn torment(arguments: &Arguments) -> Result<Summary> {
    let by_clock = || {
        SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |time| time.as_secs())
    };
    let plan = Plan {
        quire: arguments
            .quire
            .canonicalize()
            .during(arguments.quire.display())?,
        dir: arguments.dir.clone(),
        time: Duration::from_secs_f64(arguments.minutes * 60.0),
        rounds: arguments.rounds,
        kinds: arguments.kind.clone(),
        seed: arguments.seed.unwrap_or_else(by_clock),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .during("wait for signals")?;
    runtime.spawn(stop_on_signal(plan.dir.clone()));
    run(&plan, &STOP, &|line| eprintln!("{line}"))
}

/// The first Ctrl-C or SIGTERM ends the run after cleaning up; the second ends it at once.
async fn stop_on_signal(dir: PathBuf) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return;
    };
    let mut count = 0;
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        count += 1;
        STOP.store(true, Ordering::Relaxed);
        if count == 1 {
            eprintln!("torture: stopping; once more stops at once");
        } else {
            if let Ok(dir) = dir.canonicalize() {
                take_down(&dir.join(own_name()));
            }
            std::process::exit(130);
        }
    }
}
