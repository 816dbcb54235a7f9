//! The dashboard of a run on a terminal: lines that are drawn anew with each report.
//!
//! ```text
//! mysql://db1:3306/shop.tracks
//!   search   1,234,567 changes   20,123/s   6.1 MB/s   37 behind, 0.4 s
//!            delay p50 12 ms, p99 80 ms; 4 x 512 kB; the source limits; 3 retries, 0 refused
//! ```

use crate::size::count;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use quire_ship::Progress;

/// A title and two lines for each sink, on standard error.
pub(super) struct Dashboard {
    all: MultiProgress,
    sinks: Vec<(String, [ProgressBar; 2])>,
    name_width: usize,
}

impl Dashboard {
    /// Draws the dashboard; none if standard error is no terminal.
    pub(super) fn start<'n>(
        source: &str,
        sinks: impl Iterator<Item = &'n str>,
    ) -> Option<Dashboard> {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        if all.is_hidden() {
            return None;
        }
        let style = ProgressStyle::with_template("{msg}").ok()?;
        let line = || {
            let line = ProgressBar::no_length().with_style(style.clone());
            all.add(line)
        };
        line().set_message(source.to_owned());
        let sinks: Vec<_> = sinks
            .map(|name| (name.to_owned(), [line(), line()]))
            .collect();
        let widths = sinks.iter().map(|(name, _)| name.len());
        let name_width = widths.max().unwrap_or(0);
        Some(Dashboard {
            all,
            sinks,
            name_width,
        })
    }

    /// Shows the progress of a sink.
    pub(super) fn show(&self, progress: &Progress) {
        let mut sinks = self.sinks.iter();
        let Some((name, [first, second])) = sinks.find(|(name, _)| *name == progress.sink) else {
            return;
        };
        let width = self.name_width;
        first.set_message(format!("  {name:width$}   {}", rates(progress)));
        second.set_message(format!("  {:width$}   {}", "", details(progress)));
    }

    /// Prints a message above it.
    pub(super) fn print(&self, message: &str) {
        self.all.suspend(|| crate::message::print_message(message));
    }

    /// Leaves the last lines as they are.
    pub(super) fn finish(&self) {
        for line in self.sinks.iter().flat_map(|(_, lines)| lines) {
            line.abandon();
        }
    }
}

fn rates(progress: &Progress) -> String {
    let mut text = format!(
        "{} changes   {}/s   {:.1} MB/s   ",
        count(progress.changes),
        count(progress.changes_per_second.round().max(0.0) as u64),
        progress.bytes_per_second / 1e6
    );
    if progress.is_level {
        return text + "level";
    }
    let changes = progress
        .lag_changes
        .map(|changes| format!("{} changes", count(changes)));
    let seconds = progress
        .lag_seconds
        .map(|seconds| format!("{seconds:.1} s"));
    let lag: Vec<String> = changes.into_iter().chain(seconds).collect();
    text += match lag.is_empty() {
        true => "behind",
        false => "behind: ",
    };
    text + &lag.join(", ")
}

fn details(progress: &Progress) -> String {
    if let Some(why) = &progress.failed {
        return format!("ended: {why}");
    }
    if let Some(why) = &progress.waiting_for {
        return format!("waiting: {why}");
    }
    let mut parts = Vec::new();
    let delays = (progress.delay_p50_seconds, progress.delay_p99_seconds);
    if let (Some(half), Some(most)) = delays {
        parts.push(format!(
            "delay p50 {}, p99 {}",
            seconds(half),
            seconds(most)
        ));
    }
    let (at_once, kilobytes) = (progress.concurrency, progress.bulk_bytes / 1000);
    parts.push(format!("{at_once} x {kilobytes} kB"));
    if !progress.is_level {
        let is_full = progress.under_way >= progress.concurrency;
        parts.push(format!(
            "the {} limits",
            if is_full { "sink" } else { "source" }
        ));
    }
    let (retries, refused) = (count(progress.retries), count(progress.dead_letters));
    parts.push(format!("{retries} retries, {refused} refused"));
    parts.join("; ")
}

fn seconds(seconds: f64) -> String {
    match seconds {
        1.0.. => format!("{seconds:.1} s"),
        _ => format!("{:.0} ms", seconds * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_is_two_lines_that_say_what_limits_it_or_what_it_waits_for() {
        let mut progress = Progress {
            changes: 1_234_567,
            changes_per_second: 20_123.4,
            bytes_per_second: 6.1e6,
            lag_changes: Some(37),
            lag_seconds: Some(0.42),
            delay_p50_seconds: Some(0.012),
            delay_p99_seconds: Some(1.25),
            bulk_bytes: 512_000,
            concurrency: 4,
            under_way: 4,
            retries: 3,
            ..Progress::default()
        };
        assert_eq!(
            rates(&progress),
            "1,234,567 changes   20,123/s   6.1 MB/s   behind: 37 changes, 0.4 s"
        );
        assert_eq!(
            details(&progress),
            "delay p50 12 ms, p99 1.2 s; 4 x 512 kB; the sink limits; 3 retries, 0 refused"
        );
        progress.waiting_for = Some("no answer".to_owned());
        assert_eq!(details(&progress), "waiting: no answer");
        progress.is_level = true;
        assert!(rates(&progress).ends_with("level"));
    }
}
