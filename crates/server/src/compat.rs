//! Which product the API is that of: OpenSearch, or Elasticsearch for clients that insist on it.

use std::str::FromStr;

/// The product that a server says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compat {
    /// OpenSearch 2.19.
    #[default]
    OpenSearch,
    /// Elasticsearch 8: its clients of versions 7 and 8 work.
    Elasticsearch,
}

impl FromStr for Compat {
    type Err = String;

    fn from_str(text: &str) -> Result<Compat, String> {
        match text {
            "opensearch" => Ok(Compat::OpenSearch),
            "elasticsearch" => Ok(Compat::Elasticsearch),
            _ => Err(format!("{text:?} is neither opensearch nor elasticsearch")),
        }
    }
}

impl Compat {
    /// The version of the product.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Compat::OpenSearch => "2.19.0",
            Compat::Elasticsearch => "8.15.0",
        }
    }
}
