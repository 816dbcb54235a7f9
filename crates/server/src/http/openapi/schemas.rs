//! The schemas of bodies, by name, each with an example.
//!
//! Members that are not named may be there too. None is said to be required: the parameter
//! `filter_path` can leave out any.

use serde_json::{Map, Value};

use super::{
    of_cluster, of_collections, of_command, of_documents, of_fields, of_figures, of_jobs, of_nodes,
    of_partitions, of_searches, of_server, of_state, of_templates, of_wide,
};

/// Every schema that an operation refers to.
pub(super) fn schemas() -> Value {
    let mut all = Map::new();
    let groups = [
        of_documents::group(),
        of_wide::group(),
        of_searches::group(),
        of_fields::group(),
        of_collections::group(),
        of_templates::group(),
        of_partitions::group(),
        of_command::group(),
        of_figures::group(),
        of_jobs::group(),
        of_nodes::group(),
        of_cluster::group(),
        of_state::group(),
        of_server::group(),
    ];
    for (name, schema) in groups.into_iter().flatten() {
        let other = all.insert(name.to_owned(), schema);
        debug_assert!(other.is_none(), "one schema has the name {name}");
    }
    Value::Object(all)
}
