//! The table of routes: what is served, what `/openapi.json` says, and what query parameters each
//! route knows are one list.

mod parameters;

use axum::extract::FromRef;
use axum::http::Method;
use futures_util::future::BoxFuture;

use self::parameters::*;
use crate::access::role::Action::{Follow, Manage, Read, Tokens, Write};
use crate::admin::{
    cat, cat_nodes, cat_shards, cluster, cluster_settings, cluster_state, cluster_stats, health,
    node_stats, nodes, routing, search_shards, shards, stats, tokens,
};
use crate::collections::{
    aliases, drop, mapping_calls as mapping, open_close, resolve, rollover,
    settings_calls as settings, stats_calls, template_calls as templates, upkeep,
};
use crate::command::{coprocessor, describe, query, read, trigger, write};
use crate::documents::{
    by_query, changes, mget, one as documents, reindex, resize, rethrottle, update,
};
use crate::follow::leader;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::endpoint::Endpoint;
use crate::http::endpoint::Needs::{Any, Items, Named, Own, Whole};
use crate::http::failure::Outcome;
use crate::http::openapi::{self, Endpoints};
use crate::http::tables;
use crate::jobs::{backup, repartition, verify};
use crate::search::{analyze, multi, point, scroll_calls as scroll, validate};
use crate::state::Server;
use crate::tasks::{calls as tasks, pools, table as tasks_table};
use crate::wide::{cells, schema};
use crate::{bulk, collections, search};

/// Answers a call with what it uses of the server.
type Handler = fn(&Server, Call<()>) -> BoxFuture<'static, Outcome<Answer>>;

/// One kind of request that the server answers.
pub(crate) struct Route {
    pub(crate) endpoint: Endpoint,
    pub(crate) handler: Handler,
}

const GET: &[Method] = &[Method::GET];
const POST: &[Method] = &[Method::POST];
const GET_POST: &[Method] = &[Method::GET, Method::POST];
const DELETES: &[Method] = &[Method::DELETE];
const PUT_POST: &[Method] = &[Method::PUT, Method::POST];

macro_rules! routes {
    ($(
        $needs:expr, $methods:expr, $path:literal, $params:expr, $handler:path, $summary:literal;
    )*) => {
        &[$(Route {
            endpoint: Endpoint {
                needs: $needs,
                methods: $methods,
                path: $path,
                summary: $summary,
                params: $params,
            },
            handler: |server, call| {
                Box::pin($handler(call.with_state(FromRef::from_ref(server))))
            },
        }),*]
    };
}

impl FromRef<Server> for Endpoints {
    fn from_ref(_: &Server) -> Endpoints {
        Endpoints(ROUTES.iter().map(|route| &route.endpoint).collect())
    }
}

/// Every route.
pub(crate) static ROUTES: &[Route] = routes! {
    Any, GET, "/", &[], cluster::info,
        "What is served here";
    Any, GET, "/_cluster/health", HEALTH, health::health,
        "Whether the database serves";
    Named(Read), GET, "/_cluster/health/{collection}", HEALTH, health::health,
        "Whether collections are served";
    Any, GET, "/_cluster/settings", CLUSTER_SETTINGS, cluster_settings::get,
        "Settings that hold until the server stops";
    Whole(Manage), &[Method::PUT], "/_cluster/settings", CLUSTER_SETTINGS, cluster_settings::put,
        "Change settings that hold until the server stops";
    Whole(Read), GET, "/_cluster/stats", NODES, cluster_stats::cluster_stats,
        "What the database holds, as of a cluster";
    Whole(Read), GET, "/_cluster/state", STATE, cluster_state::cluster_state,
        "A part of what OpenSearch says of its cluster";
    Whole(Read), GET, "/_cluster/state/{name}", STATE, cluster_state::cluster_state,
        "Some parts of it";
    Named(Read), GET, "/_cluster/state/{name}/{collection}", STATE, cluster_state::cluster_state,
        "Some parts of it, about some collections";
    Whole(Manage), POST, "/_cluster/reroute", REROUTE, routing::reroute,
        "The cluster's state, and why no partition can be moved";
    Items(Read), GET_POST, "/_cluster/allocation/explain", EXPLAIN, routing::explain,
        "Why a partition is where it is";
    Any, GET, "/_cluster/pending_tasks", PENDING, routing::pending,
        "An empty list";
    Any, GET, "/_remote/info", &[], routing::remotes,
        "Remote clusters, of which there are none";
    Whole(Manage), POST, "/_cluster/voting_config_exclusions", VOTING, routing::exclude,
        "Is refused: the one node votes alone";
    Whole(Manage), DELETES, "/_cluster/voting_config_exclusions", VOTING, routing::include,
        "Changes nothing: no node is excluded";
    Any, GET, "/_nodes", NODES, nodes::info,
        "The one node";
    Any, GET, "/_nodes/{name}", NODES, nodes::info,
        "The one node, some parts of it";
    Any, GET, "/_nodes/{id}/{name}", NODES, nodes::info,
        "A node, some parts of it";
    Whole(Manage), POST, "/_nodes/reload_secure_settings", &["timeout"], nodes::reload,
        "Changes nothing: there are no secure settings";
    Whole(Manage), POST, "/_nodes/{id}/reload_secure_settings", &["timeout"], nodes::reload,
        "Changes nothing: there are no secure settings";
    Whole(Read), GET, "/_nodes/stats", NODES_STATS, node_stats::stats,
        "What the one node holds, has done, and has of the machine";
    Whole(Read), GET, "/_nodes/stats/{name}", NODES_STATS, node_stats::stats,
        "Some parts of it";
    Whole(Read), GET, "/_nodes/stats/{name}/{index_metric}", NODES_STATS, node_stats::stats,
        "Some parts of it, with some figures of collections";
    Whole(Read), GET, "/_nodes/{id}/stats", NODES_STATS, node_stats::stats,
        "What a node holds, has done, and has of the machine";
    Whole(Read), GET, "/_nodes/{id}/stats/{name}", NODES_STATS, node_stats::stats,
        "Some parts of it";
    Whole(Read), GET, "/_nodes/{id}/stats/{name}/{index_metric}", NODES_STATS, node_stats::stats,
        "Some parts of it, with some figures of collections";
    Named(Read), GET, "/_resolve/index/{collection}", RESOLVE, resolve::resolve,
        "The collections and aliases that names stand for";
    Any, GET, "/_data_stream", RESOLVE, resolve::data_streams,
        "Data streams, of which there are none";
    Named(Read), GET, "/_data_stream/{collection}", RESOLVE, resolve::data_streams,
        "Data streams of these names, of which there are none";
    Any, GET, "/_cat", CAT, tables::tables,
        "The paths of all tables";
    Any, GET, "/_cat/nodes", CAT_NODES, cat_nodes::nodes,
        "The one node, as a table";
    Any, GET, "/_cat/cluster_manager", CAT, cat_nodes::manager,
        "The one node, as a table";
    Any, GET, "/_cat/master", CAT, cat_nodes::manager,
        "The one node, as a table";
    Whole(Read), GET, "/_cat/shards", CAT, cat_shards::shards,
        "A table of partitions";
    Named(Read), GET, "/_cat/shards/{collection}", CAT, cat_shards::shards,
        "A table of partitions";
    Whole(Read), GET, "/_cat/allocation", CAT, cat_nodes::allocation,
        "A table of nodes and what they hold";
    Whole(Read), GET, "/_cat/allocation/{id}", CAT, cat_nodes::allocation,
        "A table of some nodes and what they hold";
    Any, GET, "/_cat/plugins", CAT, cat_nodes::plugins,
        "An empty table";
    Any, GET, "/_cat/pending_tasks", CAT, cat_nodes::pending,
        "An empty table";
    Any, GET, "/_cat/fielddata", CAT_FIELDDATA, cat_nodes::fielddata,
        "An empty table";
    Any, GET, "/_cat/nodeattrs", CAT, cat_nodes::nodeattrs,
        "An empty table";
    Any, GET, "/_cat/repositories", CAT, cat_nodes::repositories,
        "An empty table";
    Any, GET, "/_cat/snapshots", CAT, cat_nodes::snapshots,
        "An empty table";
    Any, GET, "/_cat/snapshots/{name}", CAT, cat_nodes::snapshots,
        "An empty table";
    Whole(Read), GET, "/_cat/recovery", CAT_RECOVERY, cat_shards::recovery,
        "A table of partitions, and how they were opened";
    Named(Read), GET, "/_cat/recovery/{collection}", CAT_RECOVERY, cat_shards::recovery,
        "A table of partitions, and how they were opened";
    Whole(Read), GET, "/_cat/segments", CAT, cat_shards::segments,
        "A table of partitions, each as one segment";
    Named(Read), GET, "/_cat/segments/{collection}", CAT, cat_shards::segments,
        "A table of partitions, each as one segment";
    Whole(Read), GET, "/_cat/thread_pool", CAT, pools::table,
        "How many requests of each kind are running, as a table";
    Whole(Read), GET, "/_cat/thread_pool/{name}", CAT, pools::table,
        "How many requests of some kinds are running, as a table";
    Whole(Read), GET, "/_cat/templates", CAT, cat_nodes::templates,
        "A table of index templates and legacy templates";
    Whole(Read), GET, "/_cat/templates/{name}", CAT, cat_nodes::templates,
        "A table of some templates";
    Whole(Read), GET, "/_cat/indices", CAT_INDICES, cat::indices,
        "A table of collections";
    Named(Read), GET, "/_cat/indices/{collection}", CAT_INDICES, cat::indices,
        "A table of some collections";
    Whole(Read), GET, "/_cat/aliases", CAT, cat::aliases,
        "A table of aliases";
    Whole(Read), GET, "/_cat/aliases/{name}", CAT, cat::aliases,
        "A table of some aliases";
    Whole(Read), GET, "/_cat/count", CAT, cat::count,
        "The number of documents, as a table";
    Named(Read), GET, "/_cat/count/{collection}", CAT, cat::count,
        "The number of documents of collections, as a table";
    Whole(Read), GET, "/_cat/health", CAT_HEALTH, cat::health,
        "Whether the database serves, as a table";
    Own(Manage), GET, "/_cat/tasks", CAT_TASKS, tasks_table::table,
        "A table of running requests";
    Own(Manage), GET, "/_tasks", TASKS, tasks::list,
        "Running requests";
    Own(Manage), GET, "/_tasks/{id}", TASKS, tasks::get,
        "A running request";
    Own(Manage), POST, "/_tasks/{id}/_cancel", TASKS, tasks::cancel,
        "Cancel a running request";
    Own(Manage), POST, "/_tasks/_cancel", TASKS, tasks::cancel_all,
        "Cancel running requests";
    Own(Manage), POST, "/_delete_by_query/{id}/_rethrottle", RETHROTTLE, rethrottle::rethrottle,
        "Change the rate of a running `_delete_by_query`";
    Own(Manage), POST, "/_update_by_query/{id}/_rethrottle", RETHROTTLE, rethrottle::rethrottle,
        "Change the rate of a running `_update_by_query`";
    Own(Manage), POST, "/_reindex/{id}/_rethrottle", RETHROTTLE, rethrottle::rethrottle,
        "Change the rate of a running `_reindex`";
    Whole(Tokens), GET, "/_quire/tokens", &[], tokens::list,
        "The named tokens, without their secrets";
    Whole(Tokens), &[Method::PUT], "/_quire/tokens/{name}", &[], tokens::create,
        "Make a token; the answer has its secret, once";
    Whole(Tokens), DELETES, "/_quire/tokens/{name}", &[], tokens::revoke,
        "Revoke a token";
    Whole(Read), GET, "/_quire/coprocessors", &[], coprocessor::list,
        "The coprocessors, with their versions and kinds";
    Whole(Read), GET, "/_quire/coprocessors/{name}", &["version"], coprocessor::show,
        "A coprocessor, its newest version or another one";
    Whole(Manage), &[Method::PUT], "/_quire/coprocessors/{name}", &[], coprocessor::add,
        "Keep a WebAssembly module as the next version of a coprocessor";
    Whole(Manage), DELETES, "/_quire/coprocessors/{name}", &["version"], coprocessor::remove,
        "Drop a coprocessor, or one version of it";
    Whole(Read), GET, "/_quire/stats", &[], stats::stats,
        "What the database holds and has done";
    Whole(Read), GET, "/metrics", &[], stats::metrics,
        "Metrics for Prometheus";
    Whole(Manage), GET, "/_backup", &[], backup::state,
        "The backup being made, and the one made last";
    Whole(Manage), POST, "/_backup/{name}", BACKUP, backup::begin,
        "Begin a backup, below the directory that the server was given";
    Whole(Manage), GET, "/_verify", &[], verify::state,
        "The progress of the verification, and what the last one found";
    Whole(Manage), POST, "/_verify", &["rate_bytes"], verify::begin,
        "Begin to read and check every byte, while the database is served";
    Whole(Follow), POST, "/_follow", &[], leader::follow,
        "The records that a follower lacks, and new ones as they come";
    Whole(Follow), POST, "/_follow/copy/{id}", &[], leader::copy,
        "All files as of now, for a follower to take";
    Whole(Follow), GET, "/_follow/copy/{id}/{name}", &[], leader::file,
        "One of these files";
    Whole(Follow), &[Method::DELETE], "/_follow/copy/{id}", &[], leader::drop_copy,
        "The follower has them: release them";
    Any, GET, "/openapi.json", &[], openapi::document,
        "This description";

    Named(Manage), &[Method::PUT], "/{collection}", ADMIN, collections::create,
        "Create a collection";
    Named(Read), GET, "/{collection}", LOOKUP, collections::get,
        "A collection's settings; HEAD tells whether it exists";
    Named(Manage), &[Method::DELETE], "/{collection}", DROP, drop::delete,
        "Drop a collection and all that is in it";
    Named(Manage), &[Method::PUT], "/{collection}/_settings", SETTINGS, settings::change,
        "Change a collection's settings";
    Whole(Manage), &[Method::PUT], "/_settings", SETTINGS, settings::change,
        "Change the settings of all collections";
    Named(Manage), &[Method::PUT], "/{collection}/_block/{name}", OPEN_CLOSE, settings::block,
        "Refuse writes, reads or changes of collections from now on";
    Named(Manage), POST, "/{collection}/_close", OPEN_CLOSE, open_close::close,
        "Refuse reads and writes of documents until collections are opened";
    Whole(Manage), POST, "/_close", OPEN_CLOSE, open_close::close,
        "Close all collections";
    Named(Manage), POST, "/{collection}/_open", OPEN_CLOSE, open_close::open,
        "Serve the documents of closed collections again";
    Whole(Manage), POST, "/_open", OPEN_CLOSE, open_close::open,
        "Open all collections";
    Named(Manage), POST, "/{collection}/_rollover", ROLLOVER, rollover::rollover,
        "Let a new collection take the writes of an alias";
    Named(Manage), POST, "/{collection}/_rollover/{name}", ROLLOVER, rollover::rollover,
        "Let a new collection of this name take the writes of an alias";
    Named(Manage), PUT_POST, "/{collection}/_clone/{name}", RESIZE, resize::clone,
        "Copy a collection that refuses writes";
    Named(Manage), PUT_POST, "/{collection}/_shrink/{name}", RESIZE, resize::shrink,
        "Copy a collection that refuses writes into fewer partitions";
    Named(Manage), PUT_POST, "/{collection}/_split/{name}", RESIZE, resize::split,
        "Copy a collection that refuses writes into more partitions";
    Named(Manage), POST, "/{collection}/_partitions", PARTITIONS, repartition::repartition,
        "Split the partitions of a collection, while it is read and written";
    Whole(Read), GET, "/_settings", LOOKUP, settings::get,
        "The settings of all collections";
    Whole(Read), GET, "/_settings/{name}", LOOKUP, settings::get,
        "Some settings of all collections";
    Named(Read), GET, "/{collection}/_settings", LOOKUP, settings::get,
        "The settings of collections";
    Named(Read), GET, "/{collection}/_settings/{name}", LOOKUP, settings::get,
        "Some settings of collections";
    Whole(Read), GET, "/_component_template", TEMPLATES, templates::get_component,
        "All component templates";
    Whole(Read), GET, "/_component_template/{name}", TEMPLATES, templates::get_component,
        "A component template; HEAD tells whether it exists";
    Whole(Manage), PUT_POST, "/_component_template/{name}", TEMPLATES, templates::put_component,
        "Make a template that index templates are composed of";
    Whole(Manage), DELETES, "/_component_template/{name}", TEMPLATES, templates::delete_component,
        "Delete a component template";
    Whole(Read), GET, "/_index_template", TEMPLATES, templates::get_index,
        "All index templates";
    Whole(Read), GET, "/_index_template/{name}", TEMPLATES, templates::get_index,
        "An index template; HEAD tells whether it exists";
    Whole(Manage), PUT_POST, "/_index_template/{name}", TEMPLATES, templates::put_index,
        "Make a template of new collections whose names match";
    Whole(Manage), DELETES, "/_index_template/{name}", TEMPLATES, templates::delete_index,
        "Delete an index template";
    Whole(Read), POST, "/_index_template/_simulate_index/{name}", TEMPLATES,
        templates::simulate_index, "What a new collection of this name would have";
    Whole(Read), POST, "/_index_template/_simulate", TEMPLATES, templates::simulate,
        "What an index template in the body says with its components";
    Whole(Read), POST, "/_index_template/_simulate/{name}", TEMPLATES, templates::simulate,
        "What an index template says with its components";
    Whole(Read), GET, "/_template", TEMPLATES, templates::get_legacy,
        "All legacy templates";
    Whole(Read), GET, "/_template/{name}", TEMPLATES, templates::get_legacy,
        "A legacy template; HEAD tells whether it exists";
    Whole(Manage), PUT_POST, "/_template/{name}", TEMPLATES, templates::put_legacy,
        "Make a legacy template";
    Whole(Manage), DELETES, "/_template/{name}", TEMPLATES, templates::delete_legacy,
        "Delete a legacy template";
    Items(Manage), POST, "/_aliases", ADMIN, aliases::actions,
        "Add and remove aliases, and drop collections, all at one moment";
    Whole(Read), GET, "/_aliases", LOOKUP, aliases::get,
        "The aliases of all collections";
    Whole(Read), GET, "/_alias", LOOKUP, aliases::get,
        "The aliases of all collections";
    Whole(Read), GET, "/_alias/{name}", LOOKUP, aliases::get,
        "The collections of an alias";
    Named(Read), GET, "/{collection}/_alias", LOOKUP, aliases::get,
        "The aliases of a collection";
    Named(Read), GET, "/{collection}/_alias/{name}", LOOKUP, aliases::get,
        "An alias of a collection; HEAD tells whether it exists";
    Items(Manage), PUT_POST, "/_alias", ADMIN, aliases::put,
        "Add an alias to collections, which the body names";
    Items(Manage), PUT_POST, "/_alias/{name}", ADMIN, aliases::put,
        "Add an alias to collections, which the body names";
    Named(Manage), PUT_POST, "/{collection}/_alias", ADMIN, aliases::put,
        "Add an alias, which the body names, to collections";
    Named(Manage), PUT_POST, "/{collection}/_alias/{name}", ADMIN, aliases::put,
        "Add an alias to collections";
    Named(Manage), DELETES, "/{collection}/_alias/{name}", ADMIN, aliases::delete,
        "Remove an alias from collections";
    Whole(Read), GET, "/_mapping", MAPPING, mapping::get,
        "The fields of documents and the types of their values";
    Named(Read), GET, "/{collection}/_mapping", MAPPING, mapping::get,
        "The fields of a collection's documents and the types of their values";
    Named(Read), GET, "/{collection}/_mappings", MAPPING, mapping::get,
        "As `_mapping`";
    Named(Manage), PUT_POST, "/{collection}/_mapping", PUT_MAPPING, mapping::put,
        "Give fields types, which documents must agree with";
    Named(Manage), PUT_POST, "/{collection}/_mappings", PUT_MAPPING, mapping::put,
        "As `_mapping`";
    Whole(Read), GET, "/_mapping/field/{name}", FIELD_MAPPING, mapping::get_fields,
        "Some fields and their types";
    Named(Read), GET, "/{collection}/_mapping/field/{name}", FIELD_MAPPING, mapping::get_fields,
        "Some fields of collections and their types";
    Whole(Read), GET_POST, "/_field_caps", FIELD_CAPS, mapping::capabilities,
        "The types of fields over all collections";
    Named(Read), GET_POST, "/{collection}/_field_caps", FIELD_CAPS, mapping::capabilities,
        "The types of fields over collections";
    Whole(Read), GET, "/_stats", STATS, stats_calls::stats,
        "What collections hold";
    Named(Read), GET, "/{collection}/_stats", STATS, stats_calls::stats,
        "What a collection holds";
    Whole(Read), GET, "/_stats/{name}", STATS, stats_calls::stats,
        "Some figures of what collections hold";
    Named(Read), GET, "/{collection}/_stats/{name}", STATS, stats_calls::stats,
        "Some figures of what a collection holds";
    Whole(Read), GET, "/_segments", SEGMENTS, shards::segments,
        "The partitions of all collections, each as one segment";
    Named(Read), GET, "/{collection}/_segments", SEGMENTS, shards::segments,
        "The partitions of collections, each as one segment";
    Whole(Read), GET, "/_shard_stores", STORES, shards::stores,
        "Where the partitions of all collections are";
    Named(Read), GET, "/{collection}/_shard_stores", STORES, shards::stores,
        "Where the partitions of collections are";
    Whole(Read), GET, "/_recovery", RECOVERY, shards::recovery,
        "How the partitions of all collections were opened";
    Named(Read), GET, "/{collection}/_recovery", RECOVERY, shards::recovery,
        "How the partitions of collections were opened";
    Whole(Read), GET_POST, "/_search_shards", SEARCH_SHARDS, search_shards::search_shards,
        "The partitions that a search of all collections reads";
    Named(Read), GET_POST, "/{collection}/_search_shards", SEARCH_SHARDS,
        search_shards::search_shards,
        "The partitions that a search reads";
    Named(Read), GET, "/{collection}/_changes", CHANGES, changes::changes,
        "Changes after a cursor, and new ones while the caller waits; lines of JSON";
    Named(Read), GET, "/{collection}/_quire", &[], describe::describe,
        "A collection as the quire command sees it: its settings and positions";
    Named(Read), GET, "/{collection}/_quire/stats", &[], describe::stats,
        "What a collection holds, in detail";
    Named(Read), GET, "/{collection}/_quire/fields", &[], describe::fields,
        "The fields of a collection's documents, in detail";
    Named(Read), POST, "/{collection}/_quire/get", &[], read::get,
        "Documents by key, as lines of JSON";
    Named(Read), GET, "/{collection}/_quire/scan", SCAN, read::scan,
        "The documents of a range of keys, in the order of the keys, as lines of JSON";
    Named(Read), POST, "/{collection}/_quire/query", &[], query::query,
        "A query as text, as the quire command has it; the answer is lines of JSON";
    Named(Read), POST, "/{collection}/_quire/coprocessor", &[], coprocessor::run,
        "What a coprocessor makes of all documents, as lines of JSON";
    Named(Read), GET, "/{collection}/_quire/triggers", &[], trigger::list,
        "The coprocessors that run with each write of a collection";
    Named(Manage), &[Method::PUT], "/{collection}/_quire/triggers/{name}", &[], trigger::attach,
        "Run a coprocessor with each write of a collection";
    Named(Manage), DELETES, "/{collection}/_quire/triggers/{name}", &[], trigger::detach,
        "Stop to run a coprocessor with each write of a collection";
    Named(Write), POST, "/{collection}/_quire/write", &["durability"], write::write,
        "Puts, patches and deletes, a line each; the answer has a line for each";
    Named(Write), POST, "/{collection}/_quire/sync", &[], describe::sync,
        "Make every write that was acknowledged durable";
    Whole(Read), GET_POST, "/_refresh", SELECT, collections::refresh,
        "Changes nothing: every acknowledged write is already seen";
    Named(Read), GET_POST, "/{collection}/_refresh", SELECT, collections::refresh,
        "Changes nothing: every acknowledged write is already seen";
    Whole(Manage), GET_POST, "/_flush", SELECT, collections::flush,
        "Write memtables to files";
    Named(Manage), GET_POST, "/{collection}/_flush", SELECT, collections::flush,
        "Write memtables to files";
    Whole(Manage), POST, "/_forcemerge", MERGE, collections::force_merge,
        "Free the disk space of overwritten and deleted documents";
    Named(Manage), POST, "/{collection}/_forcemerge", MERGE, collections::force_merge,
        "Free the disk space of overwritten and deleted documents";
    Whole(Manage), POST, "/_cache/clear", CLEAR_CACHE, upkeep::clear_cache,
        "Changes nothing: answers are not cached";
    Named(Manage), POST, "/{collection}/_cache/clear", CLEAR_CACHE, upkeep::clear_cache,
        "Changes nothing: answers are not cached";
    Whole(Manage), POST, "/_upgrade", UPGRADE, upkeep::upgrade,
        "Changes nothing: files of every format are served";
    Named(Manage), POST, "/{collection}/_upgrade", UPGRADE, upkeep::upgrade,
        "Changes nothing: files of every format are served";
    Whole(Read), GET_POST, "/_validate/query", VALIDATE, validate::validate,
        "Whether a query could be answered";
    Named(Read), GET_POST, "/{collection}/_validate/query", VALIDATE, validate::validate,
        "Whether a query of collections could be answered";
    Whole(Read), GET_POST, "/_count", COUNT, search::count,
        "Count documents, all of them or those that match a query";
    Named(Read), GET_POST, "/{collection}/_count", COUNT, search::count,
        "Count the documents of collections";
    Items(Read), GET_POST, "/_search", SEARCH, search::search,
        "Find documents, and aggregate all that match";
    Named(Read), GET_POST, "/{collection}/_search", SEARCH, search::search,
        "Find documents of collections";

    Any, GET_POST, "/_search/scroll", SCROLL, scroll::next,
        "The next page of a scroll";
    Any, GET_POST, "/_search/scroll/{id}", SCROLL, scroll::next,
        "The next page of a scroll";
    Any, DELETES, "/_search/scroll", &[], scroll::close,
        "Release scrolls before their time is over";
    Any, DELETES, "/_search/scroll/{id}", &[], scroll::close,
        "Release a scroll, or with _all those of the caller";
    Named(Read), POST, "/{collection}/_search/point_in_time", POINT, point::open,
        "Keep collections as they are now for searches";
    Named(Read), POST, "/{collection}/_pit", POINT, point::open_pit,
        "Keep collections as they are now for searches, as Elasticsearch's clients do";
    Any, DELETES, "/_pit", &[], point::close_pit,
        "Release a point in time before its time is over";
    Any, DELETES, "/_search/point_in_time", &[], point::close,
        "Release points in time before their time is over";
    Whole(Read), GET, "/_search/point_in_time/_all", &[], point::list,
        "Points in time that are open";
    Any, DELETES, "/_search/point_in_time/_all", &[], point::close_all,
        "Release the caller's points in time; of others too if it may manage all collections";
    Any, GET_POST, "/_analyze", &[], analyze::analyze,
        "The tokens that an analyzer makes of a text";
    Named(Read), GET_POST, "/{collection}/_analyze", &[], analyze::analyze,
        "The tokens that an analyzer makes of a text";
    Items(Read), GET_POST, "/_msearch", MSEARCH, multi::multi,
        "Several searches, each answered on its own";
    Named(Read), GET_POST, "/{collection}/_msearch", MSEARCH, multi::multi,
        "Several searches, in this collection where they name none";
    Named(Write), POST, "/{collection}/_delete_by_query", BY_QUERY, by_query::delete,
        "Delete the documents that match a query as of now";
    Named(Write), POST, "/{collection}/_update_by_query", BY_QUERY, by_query::update,
        "Write the documents that match a query as of now again, as new versions";
    Items(Write), POST, "/_reindex", REINDEX, reindex::reindex,
        "Copy the documents that match a query as of now into another collection";

    Named(Write), POST, "/{collection}/_doc", WRITE, documents::add,
        "Add a document under a new id";
    Named(Read), GET, "/{collection}/_doc/{id}", READ, documents::get,
        "A document by id";
    Named(Write), PUT_POST, "/{collection}/_doc/{id}", WRITE, documents::put,
        "Put a document under an id";
    Named(Write), &[Method::DELETE], "/{collection}/_doc/{id}", DELETE, documents::delete,
        "Delete a document";
    Named(Write), PUT_POST, "/{collection}/_create/{id}", WRITE, documents::create,
        "Put a document under an id that has none";
    Named(Read), GET, "/{collection}/_source/{id}", READ, documents::source,
        "A document alone, as it was written";
    Named(Read), GET, "/{collection}/_cell/{id}/{column}", CELL, cells::get,
        "A cell of a wide collection as it is, or members of a column family";
    Named(Write), &[Method::PUT], "/{collection}/_cell/{id}/{column}", WRITE_CELL, cells::put,
        "Put a cell: the body as it is";
    Named(Write), POST, "/{collection}/_cell/{id}/{column}", WRITE_CELL, cells::merge,
        "Change a cell without reading it: add, append, add to a set, maximum";
    Named(Write), DELETES, "/{collection}/_cell/{id}/{column}", DELETE_CELL, cells::delete,
        "Remove a cell, or members of a column family";
    Named(Manage), POST, "/{collection}/_schema", ADMIN, schema::change,
        "Add, rename and drop columns of a wide collection, and shape its column groups";
    Named(Manage), POST, "/{collection}/_tier", ADMIN, schema::tier,
        "Move the cells of a wide collection that are due between the tiers of their groups, now";
    Named(Write), POST, "/{collection}/_update/{id}", UPDATE, update::update,
        "Change fields of a document";
    Items(Write), PUT_POST, "/_bulk", BULK, bulk::bulk,
        "Many writes";
    Named(Write), PUT_POST, "/{collection}/_bulk", BULK, bulk::bulk,
        "Many writes, to this collection where they name none";
    Items(Read), GET_POST, "/_mget", MGET, mget::mget,
        "Many documents by id";
    Named(Read), GET_POST, "/{collection}/_mget", MGET, mget::mget,
        "Many documents by id, of this collection where they name none";
};
