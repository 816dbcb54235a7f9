//! The metrics of the HTTP port's connections.

use super::exposition::{Exposition, counter, gauge};
use crate::net::connections::Connections;

/// Appends the metrics of a port; `buffer_bytes` are those that requests hold in memory now.
pub(crate) fn render(connections: &Connections, buffer_bytes: u64, text: &mut Exposition) {
    let open = gauge("quire_http_connections", "Connections open now");
    text.one(open, connections.open());
    let opened = counter("quire_http_connections_total", "Connections accepted");
    text.one(opened, connections.opened());
    let received = counter("quire_http_received_bytes_total", "Bytes read from clients");
    text.one(received, connections.received_bytes());
    let sent = counter("quire_http_sent_bytes_total", "Bytes written to clients");
    text.one(sent, connections.sent_bytes());
    let buffers = gauge(
        "quire_http_buffer_bytes",
        "Bytes of requests and answers held in memory",
    );
    text.one(buffers, buffer_bytes);
}
