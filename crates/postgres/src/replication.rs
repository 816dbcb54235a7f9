//! The stream of a slot. A task receives it, and answers the server while nobody takes messages.

use crate::fault;
use crate::options::{PostgresOptions, text};
use crate::place::show_lsn;
use crate::reader::Reader;
use crate::wire::{Use, Wire, error};
use bytes::{BufMut, Bytes, BytesMut};
use postgres_protocol::message::frontend::CopyData;
use quire_ship::Fault;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often the server is told what is stored.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// Messages that are read ahead, and their bytes; one message may be larger.
const MESSAGES_AHEAD: usize = 1024;
const BYTES_AHEAD: u32 = 8 << 20;

/// What the server sends.
pub(crate) enum Event {
    /// A message of the plug-in.
    Data(Bytes),
    /// Where the server is.
    At(u64),
}

type Sent = (Result<Event, Fault>, Option<OwnedSemaphorePermit>);

/// A stream.
pub(crate) struct Replication {
    events: mpsc::Receiver<Sent>,
    confirmed: watch::Sender<u64>,
}

/// A connection for a stream that is not begun.
pub(crate) struct Idle(Wire);

impl Idle {
    pub(crate) async fn connect(options: &PostgresOptions) -> Result<Idle, Fault> {
        Ok(Idle(Wire::connect(options, Use::Replication).await?))
    }

    /// Runs a command; gives its rows.
    pub(crate) async fn command(&mut self, command: &str) -> Result<Vec<crate::wire::Row>, Fault> {
        self.0.query(command).await
    }

    /// Begins the stream of a slot, or where the slot begins if that is later. What is before
    /// `confirmed` is not needed again.
    pub(crate) async fn begin(
        self,
        options: &PostgresOptions,
        slot: &str,
        from: u64,
        confirmed: u64,
    ) -> Result<Replication, Fault> {
        let Idle(mut wire) = self;
        let publication = text(&crate::options::quoted(&options.publication));
        let command = format!(
            "START_REPLICATION SLOT {slot} LOGICAL {} (proto_version '1', publication_names \
             {publication})",
            show_lsn(from)
        );
        postgres_protocol::message::frontend::query(&command, &mut wire.out)?;
        wire.send().await?;
        loop {
            let message = wire.message().await?;
            match message.tag {
                b'W' => break,
                b'E' => return Err(fault::of_server(error(&message.body)?)),
                _ => {}
            }
        }
        let (sender, events) = mpsc::channel(MESSAGES_AHEAD);
        let (confirmed, confirming) = watch::channel(confirmed);
        let mut ticks = interval(STATUS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let receiver = Receiver {
            wire,
            sender,
            confirming,
            ticks,
            room: Arc::new(Semaphore::new(BYTES_AHEAD as usize)),
        };
        tokio::spawn(receiver.run());
        Ok(Replication { events, confirmed })
    }
}

impl Replication {
    /// The next message. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Result<Event, Fault> {
        match self.events.recv().await {
            Some((event, _room)) => event,
            None => Err(Fault::Away("the stream ended".to_owned())),
        }
    }

    /// What is before is not needed again.
    pub(crate) fn confirm(&self, lsn: u64) {
        self.confirmed.send_if_modified(|confirmed| {
            let is_later = lsn > *confirmed;
            *confirmed = lsn.max(*confirmed);
            is_later
        });
    }
}

struct Receiver {
    wire: Wire,
    sender: mpsc::Sender<Sent>,
    confirming: watch::Receiver<u64>,
    ticks: Interval,
    room: Arc<Semaphore>,
}

impl Receiver {
    /// Receives until the stream fails or nobody takes messages any more.
    async fn run(mut self) {
        let sender = self.sender.clone();
        let fault = tokio::select! {
            fault = self.receive() => fault,
            () = sender.closed() => return,
        };
        // A reader that is gone needs no reason.
        let _ = sender.send((Err(fault), None)).await;
    }

    async fn receive(&mut self) -> Fault {
        loop {
            let done = tokio::select! {
                message = self.wire.message() => match message {
                    Ok(message) => self.take(message.tag, message.body).await,
                    Err(fault) => Err(fault),
                },
                _ = self.ticks.tick() => self.status().await,
            };
            if let Err(fault) = done {
                return fault;
            }
        }
    }

    async fn take(&mut self, tag: u8, body: Bytes) -> Result<(), Fault> {
        match tag {
            b'd' => {}
            b'E' => return Err(fault::of_server(error(&body)?)),
            b'c' | b'C' => return Err(Fault::Away("the server ended the stream".to_owned())),
            _ => return Ok(()),
        }
        let mut reader = Reader::new(&body);
        match reader.byte()? {
            b'k' => {
                let at = reader.long()?;
                reader.take(8)?;
                if reader.byte()? == 1 {
                    self.status().await?;
                }
                self.give(Event::At(at), 0).await
            }
            b'w' => {
                reader.take(3 * 8)?;
                let data = body.slice_ref(reader.rest());
                let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
                self.give(Event::Data(data), bytes.min(BYTES_AHEAD)).await
            }
            _ => Ok(()),
        }
    }

    /// Gives an event, when there is room. Meanwhile the server gets its answers.
    async fn give(&mut self, event: Event, bytes: u32) -> Result<(), Fault> {
        let gone = || Fault::Away("nobody reads the stream".to_owned());
        let (room, sender) = (Arc::clone(&self.room), self.sender.clone());
        let giving = async move {
            let room = room.acquire_many_owned(bytes).await.map_err(|_| gone())?;
            let sent = sender.send((Ok(event), Some(room))).await;
            sent.map_err(|_| gone())
        };
        tokio::pin!(giving);
        loop {
            tokio::select! {
                biased;
                given = &mut giving => return given,
                _ = self.ticks.tick() => self.status().await?,
            }
        }
    }

    /// Says what is stored, which also says that this is here.
    async fn status(&mut self) -> Result<(), Fault> {
        let confirmed = *self.confirming.borrow_and_update();
        let mut status = BytesMut::new();
        status.put_u8(b'r');
        for _ in ["written", "flushed", "applied"] {
            status.put_u64(confirmed);
        }
        // The clock, which the server only shows; and that no answer is wanted.
        status.put_i64(0);
        status.put_u8(0);
        CopyData::new(status)?.write(&mut self.wire.out);
        self.wire.send().await
    }
}
