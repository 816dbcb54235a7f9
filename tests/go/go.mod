module quire/tests/opensearch

go 1.22

require github.com/opensearch-project/opensearch-go/v4 v4.5.0
