//! Signals: interrupts (Ctrl-C) and SIGTERM of a process that ends in its own way.

use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a process.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes signals from now on. Called in a runtime.
    pub(crate) fn new() -> Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
        })
    }

    /// Ends with the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Whether a command was interrupted.
pub(crate) struct Interrupt {
    is_set: Arc<AtomicBool>,
    /// Waits for the signals.
    _runtime: Runtime,
}

impl Interrupt {
    /// Notes the first signal from now on. The second one ends the process.
    ///
    /// # Errors
    /// Of the system.
    pub(crate) fn watch() -> Result<Interrupt> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(failed)?;
        let mut signals = {
            let _entered = runtime.enter();
            Signals::new()?
        };
        let is_set = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&is_set);
        runtime.spawn(async move {
            signals.next().await;
            noted.store(true, Ordering::Release);
            signals.next().await;
            std::process::exit(1);
        });
        Ok(Interrupt {
            is_set,
            _runtime: runtime,
        })
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::Failed(format!("cannot wait for signals: {error}"))
}
