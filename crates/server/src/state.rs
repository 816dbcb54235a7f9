//! The state of a server, and what each part of the API gets of it.
//!
//! No handler sees [`Server`]: each part declares what it uses as a type of its own, which is made
//! here by [`FromRef`].

use std::sync::Arc;

use axum::extract::FromRef;
use axum::http::request::Parts;
use quiredb::Database;
use tokio::sync::Semaphore;

use crate::access::caller::Access;
use crate::access::grant::Grant;
use crate::admin::state::ClusterState;
use crate::admin::stats::{MetricsState, StatsState};
use crate::admin::tokens::TokensState;
use crate::admin::transient::ClusterSettings;
use crate::audit::Peer;
use crate::bulk::BulkState;
use crate::documents::changes::ChangesState;
use crate::documents::resize::discard_unfinished;
use crate::engine::Engine;
use crate::follow::leader::{LeaderCopies, LeaderState};
use crate::follow::status::FollowStatus;
use crate::http::buffers::Buffers;
use crate::http::endpoint::Endpoint;
use crate::http::failure::{Failure, Outcome};
use crate::jobs::backup::{BackupState, Backups};
use crate::jobs::repartition::{RepartitionState, Repartitions};
use crate::jobs::verify::{Verifications, VerifyState};
use crate::limits::Limits;
use crate::memcached::port_state::PortState;
use crate::metrics::requests::RequestMetrics;
use crate::net::connections::Connections;
use crate::net::stop::StopFlag;
use crate::options::ServerOptions;
use crate::search::contexts::Contexts;
use crate::search::state::SearchState;
use crate::tasks::calls::TasksState;
use crate::tasks::registry::{Running, Tasks};
use crate::tasks::task::{Origin, Sent};

/// The state of a server.
pub(crate) struct Server {
    pub(crate) options: ServerOptions,
    pub(crate) access: Arc<Access>,
    pub(crate) engine: Engine,
    pub(crate) buffers: Buffers,
    /// The turn of requests that read changes.
    reading: Arc<Semaphore>,
    /// Set when the server stops: answers without end end then.
    pub(crate) stopping: StopFlag,
    /// The HTTP port's.
    pub(crate) connections: Arc<Connections>,
    pub(crate) requests: Arc<RequestMetrics>,
    pub(crate) memcached: Arc<PortState>,
    /// If this is a follower: what it knows of its leader. A follower refuses writes of callers.
    following: Option<Arc<FollowStatus>>,
    /// The copies of this database that followers are taking.
    pub(crate) copies: Arc<LeaderCopies>,
    pub(crate) backups: Arc<Backups>,
    pub(crate) repartitions: Arc<Repartitions>,
    pub(crate) verifications: Arc<Verifications>,
    /// Scrolls and points in time that are open.
    pub(crate) contexts: Contexts,
    /// Requests that are running.
    pub(crate) tasks: Arc<Tasks>,
    /// What each client may take.
    pub(crate) limits: Arc<Limits>,
    /// Settings that hold until the server stops.
    cluster_settings: Arc<ClusterSettings>,
}

impl Server {
    pub(crate) fn new(
        database: Database,
        mut options: ServerOptions,
        following: Option<Arc<FollowStatus>>,
    ) -> Server {
        options.fit_descriptors();
        let engine = Engine::new(database, &options);
        if following.is_none() {
            discard_unfinished(&engine);
        }
        let database = engine.database();
        let buffers = Buffers::new(database.work(), database.memtables());
        let refusal = following.as_ref().map(|following| following.refusal());
        let access = Arc::new(options.access());
        let limits = Arc::new(Limits::new(
            Arc::clone(engine.database().env()),
            options.address_limit,
            options
                .token_limit
                .filter(|_| access.without_token().is_none()),
        ));
        if let (Some(tokens), Some(audit)) = (&options.tokens, &options.audit) {
            tokens.note_changes(audit);
        }
        let contexts = Contexts::default();
        buffers.share_with(contexts.keeper());
        let tasks: Arc<Tasks> = Arc::default();
        let memcached = PortState::new(
            &options,
            Arc::clone(&tasks),
            Arc::clone(&limits),
            Arc::clone(&access),
            engine.clone(),
            buffers.clone(),
            refusal,
        );
        Server {
            memcached: Arc::new(memcached),
            options,
            access,
            engine,
            buffers,
            following,
            reading: Arc::new(Semaphore::new(1)),
            stopping: StopFlag::default(),
            connections: Arc::default(),
            requests: Arc::default(),
            copies: Arc::default(),
            backups: Arc::default(),
            repartitions: Arc::default(),
            verifications: Arc::default(),
            contexts,
            tasks,
            limits,
            cluster_settings: Arc::default(),
        }
    }

    /// Puts a request on the list of what is running.
    pub(crate) fn begin_task(&self, endpoint: &Endpoint, parts: &Parts, grant: &Grant) -> Running {
        let opaque_id = parts.headers.get("x-opaque-id");
        let opaque_id = opaque_id.and_then(|id| id.to_str().ok()).map(str::to_owned);
        let request = Origin {
            sent: Sent::Http(parts.method.clone(), parts.uri.clone()),
            token: grant.name.clone(),
            address: parts.extensions.get::<Peer>().and_then(|peer| peer.address),
            opaque_id,
        };
        let now = self.engine.clock();
        self.tasks.begin(endpoint, &parts.method, request, now)
    }

    /// Refuses a write on a follower: it would make the follower differ from its leader.
    pub(crate) fn check_writable(&self) -> Outcome<()> {
        match &self.following {
            None => Ok(()),
            Some(following) => Err(Failure::read_only_follower(following.refusal())),
        }
    }
}

impl FromRef<Server> for Engine {
    fn from_ref(server: &Server) -> Engine {
        server.engine.clone()
    }
}

impl FromRef<Server> for ClusterState {
    fn from_ref(server: &Server) -> ClusterState {
        ClusterState {
            engine: server.engine.clone(),
            compat: server.options.compat,
            listen: server.options.listen,
            settings: Arc::clone(&server.cluster_settings),
            tasks: Arc::clone(&server.tasks),
            requests: Arc::clone(&server.requests),
            connections: Arc::clone(&server.connections),
            buffers: server.buffers.clone(),
            contexts: server.contexts.clone(),
            pools: [
                ("get", server.options.reads_max),
                ("search", server.options.searches_max),
                ("write", server.options.writes_max),
            ],
        }
    }
}

impl FromRef<Server> for SearchState {
    fn from_ref(server: &Server) -> SearchState {
        SearchState {
            engine: server.engine.clone(),
            buffers: server.buffers.clone(),
            contexts: server.contexts.clone(),
            memory_timeout: server.options.request_timeout,
            notes_plans: server.options.slow_log.is_some(),
        }
    }
}

impl FromRef<Server> for BulkState {
    fn from_ref(server: &Server) -> BulkState {
        BulkState {
            engine: server.engine.clone(),
            buffers: server.buffers.clone(),
            memory_timeout: server.options.request_timeout,
            requests: Arc::clone(&server.requests),
        }
    }
}

impl FromRef<Server> for ChangesState {
    fn from_ref(server: &Server) -> ChangesState {
        ChangesState {
            engine: server.engine.clone(),
            stopping: server.stopping.clone(),
            reading: Arc::clone(&server.reading),
        }
    }
}

impl FromRef<Server> for StatsState {
    fn from_ref(server: &Server) -> StatsState {
        StatsState {
            engine: server.engine.clone(),
            following: server.following.clone(),
        }
    }
}

impl FromRef<Server> for MetricsState {
    fn from_ref(server: &Server) -> MetricsState {
        let is_memcached_served = server.options.memcached.is_some();
        MetricsState {
            audit: server.options.audit.clone(),
            slow_log: server.options.slow_log.clone(),
            limits: Arc::clone(&server.limits),
            engine: server.engine.clone(),
            connections: Arc::clone(&server.connections),
            requests: Arc::clone(&server.requests),
            tasks: Arc::clone(&server.tasks),
            buffers: server.buffers.clone(),
            memcached: is_memcached_served.then(|| Arc::clone(&server.memcached)),
            following: server.following.clone(),
        }
    }
}

impl FromRef<Server> for BackupState {
    fn from_ref(server: &Server) -> BackupState {
        BackupState {
            engine: server.engine.clone(),
            dir: server.options.backup_dir.clone(),
            backups: Arc::clone(&server.backups),
        }
    }
}

impl FromRef<Server> for RepartitionState {
    fn from_ref(server: &Server) -> RepartitionState {
        RepartitionState {
            engine: server.engine.clone(),
            repartitions: Arc::clone(&server.repartitions),
            stopping: server.stopping.clone(),
        }
    }
}

impl FromRef<Server> for TokensState {
    fn from_ref(server: &Server) -> TokensState {
        TokensState {
            tokens: server.options.tokens.clone(),
        }
    }
}

impl FromRef<Server> for TasksState {
    fn from_ref(server: &Server) -> TasksState {
        TasksState {
            engine: server.engine.clone(),
            tasks: Arc::clone(&server.tasks),
            listen: server.options.listen,
        }
    }
}

impl FromRef<Server> for VerifyState {
    fn from_ref(server: &Server) -> VerifyState {
        VerifyState {
            engine: server.engine.clone(),
            verifications: Arc::clone(&server.verifications),
        }
    }
}

impl FromRef<Server> for LeaderState {
    fn from_ref(server: &Server) -> LeaderState {
        LeaderState {
            engine: server.engine.clone(),
            copies: Arc::clone(&server.copies),
            access: Arc::clone(&server.access),
            stopping: server.stopping.clone(),
        }
    }
}
