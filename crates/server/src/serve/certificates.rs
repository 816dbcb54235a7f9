//! Certificates that are replaced on disk are used without a signal or a restart.

use std::time::Duration;

use crate::net::tls::Tls;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks at the files of TLS until it is dropped.
pub(super) async fn watch(tls: Tls) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let tls = tls.clone();
        // An error of the task says that it panicked: then nothing has changed.
        match tokio::task::spawn_blocking(move || tls.look()).await {
            Ok(Ok(true)) => tracing::info!("the certificates have changed and were read again"),
            Ok(Ok(false)) | Err(_) => {}
            Ok(Err(error)) => {
                tracing::warn!("{error}; the certificates stay as they were");
            }
        }
    }
}
