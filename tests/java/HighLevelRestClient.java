// The high-level REST client for Java, as its users write it, against a server on the port given: every step is
// checked.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.*;
import org.apache.http.HttpHost;
import org.opensearch.action.admin.indices.delete.DeleteIndexRequest;
import org.opensearch.action.bulk.*;
import org.opensearch.action.delete.DeleteRequest;
import org.opensearch.action.get.*;
import org.opensearch.action.index.IndexRequest;
import org.opensearch.action.search.*;
import org.opensearch.action.update.UpdateRequest;
import org.opensearch.action.admin.indices.alias.IndicesAliasesRequest;
import org.opensearch.action.admin.indices.alias.get.GetAliasesRequest;
import org.opensearch.action.admin.indices.refresh.RefreshRequest;
import org.opensearch.action.fieldcaps.FieldCapabilitiesRequest;
import org.opensearch.action.support.WriteRequest;
import org.opensearch.client.*;
import org.opensearch.client.core.*;
import org.opensearch.client.indices.*;
import org.opensearch.client.tasks.GetTaskRequest;
import org.opensearch.client.tasks.TaskId;
import org.opensearch.common.unit.TimeValue;
import org.opensearch.index.query.QueryBuilders;
import org.opensearch.index.reindex.*;
import org.opensearch.search.aggregations.AggregationBuilders;
import org.opensearch.search.aggregations.bucket.histogram.*;
import org.opensearch.search.aggregations.bucket.filter.*;
import org.opensearch.search.aggregations.bucket.composite.*;
import org.opensearch.search.aggregations.bucket.range.*;
import org.opensearch.search.aggregations.bucket.terms.*;
import org.opensearch.search.aggregations.metrics.*;
import org.opensearch.search.builder.PointInTimeBuilder;
import org.opensearch.search.builder.SearchSourceBuilder;
import org.opensearch.search.sort.SortOrder;
import org.opensearch.common.xcontent.XContentType;

public class HighLevelRestClient {
    public static void main(String[] a) {
        Steps.runAndExit(() -> run(a));
    }

    static void run(String[] a) throws Exception {
        var c = new RestHighLevelClient(RestClient.builder(new HttpHost("127.0.0.1", Integer.parseInt(a[0]), "http")));
        var o = RequestOptions.DEFAULT;
        Steps.step("info", () -> Steps.check(!c.info(o).getVersion().getNumber().isEmpty(), "version"));
        Steps.step("ping", () -> Steps.check(c.ping(o), ""));
        Steps.step("create", () -> Steps.check(c.indices().create(new CreateIndexRequest("autos").mapping("{\"properties\":{\"n\":{\"type\":\"long\"},\"make\":{\"type\":\"keyword\"},\"at\":{\"type\":\"date\"}}}", org.opensearch.common.xcontent.XContentType.JSON), o).isAcknowledged(), ""));
        Steps.step("exists", () -> Steps.check(c.indices().exists(new GetIndexRequest("autos"), o) && !c.indices().exists(new GetIndexRequest("zzz"), o), ""));
        Steps.step("getIndex", () -> Steps.check(c.indices().get(new GetIndexRequest("autos"), o).getIndices().length == 1, ""));
        Steps.step("getMapping", () -> Steps.check(c.indices().getMapping(new GetMappingsRequest().indices("autos"), o).mappings().get("autos").sourceAsMap().containsKey("properties"), ""));
        Steps.step("bulk", () -> {
            var b = new BulkRequest().setRefreshPolicy(WriteRequest.RefreshPolicy.IMMEDIATE);
            for (int n = 0; n < 1000; n++) b.add(new IndexRequest("autos").id("" + n).source("n", n, "make", n % 2 == 1 ? "VW" : "Saab", "price", n * 1.5, "at", String.format("2024-%02d-%02d", n % 12 + 1, n % 28 + 1)));
            var r = c.bulk(b, o); Steps.check(!r.hasFailures() && r.getItems().length == 1000, r.buildFailureMessage());
        });
        Steps.step("bulk processor", () -> bulkProcessor(c, o));
        Steps.step("bulk mixed", () -> { var r = c.bulk(new BulkRequest().add(new IndexRequest("autos").id("x").source("n", 1).create(true)).add(new UpdateRequest("autos", "x").doc("make", "F")).add(new DeleteRequest("autos", "x")).add(new UpdateRequest("autos", "nix").doc("make", "F")), o); Steps.check(r.getItems()[3].isFailed() && !r.getItems()[2].isFailed(), r.buildFailureMessage()); });
        Steps.step("index", () -> Steps.check(c.index(new IndexRequest("autos").id("q").source("n", 7000), o).status().getStatus() == 201, ""));
        Steps.step("get", () -> Steps.check(c.get(new GetRequest("autos", "7"), o).getSourceAsMap().get("n").equals(7), ""));
        Steps.step("exists doc", () -> Steps.check(c.exists(new GetRequest("autos", "7"), o) && !c.exists(new GetRequest("autos", "none"), o), ""));
        Steps.step("getSource", () -> Steps.check(c.getSource(new GetSourceRequest("autos", "7"), o).getSource().get("n").equals(7), ""));
        Steps.step("mget", () -> { var r = c.mget(new MultiGetRequest().add("autos", "1").add("autos", "none"), o); Steps.check(r.getResponses()[0].getResponse().isExists() && !r.getResponses()[1].getResponse().isExists(), ""); });
        Steps.step("update", () -> { var r = c.update(new UpdateRequest("autos", "q").doc("price", 3.5).fetchSource(true), o); Steps.check(r.getGetResult().sourceAsMap().get("price").equals(3.5), r); });
        Steps.step("conflict", () -> { try { c.index(new IndexRequest("autos").id("q").source("n", 1).create(true), o); Steps.check(false, ""); } catch (org.opensearch.OpenSearchStatusException e) { Steps.check(e.status().getStatus() == 409, e); } });
        Steps.step("if_seq_no", () -> {
            var seen = c.get(new GetRequest("autos", "q"), o);
            Steps.check(c.index(new IndexRequest("autos").id("q").source("n", 7001).setIfSeqNo(seen.getSeqNo()).setIfPrimaryTerm(seen.getPrimaryTerm()), o).status().getStatus() == 200, "first");
            try { c.index(new IndexRequest("autos").id("q").source("n", 7002).setIfSeqNo(seen.getSeqNo()).setIfPrimaryTerm(seen.getPrimaryTerm()), o); Steps.check(false, "no conflict"); } catch (org.opensearch.OpenSearchStatusException e) { Steps.check(e.status().getStatus() == 409, e); }
            try { c.delete(new DeleteRequest("autos", "q").setIfSeqNo(seen.getSeqNo()).setIfPrimaryTerm(seen.getPrimaryTerm()), o); Steps.check(false, "no conflict"); } catch (org.opensearch.OpenSearchStatusException e) { Steps.check(e.status().getStatus() == 409, e); }
        });
        Steps.step("external version", () -> { c.index(new IndexRequest("autos").id("v").source("n", 1).version(5).versionType(org.opensearch.index.VersionType.EXTERNAL), o); try { c.index(new IndexRequest("autos").id("v").source("n", 1).version(5).versionType(org.opensearch.index.VersionType.EXTERNAL), o); Steps.check(false, ""); } catch (org.opensearch.OpenSearchStatusException e) { Steps.check(e.status().getStatus() == 409, e); } c.delete(new DeleteRequest("autos", "v"), o); });
        Steps.step("delete", () -> Steps.check(c.delete(new DeleteRequest("autos", "q"), o).status().getStatus() == 200 && c.delete(new DeleteRequest("autos", "q"), o).status().getStatus() == 404, ""));
        Steps.step("refresh", () -> c.indices().refresh(new RefreshRequest("autos"), o));
        Steps.step("count", () -> Steps.check(c.count(new CountRequest("autos").query(QueryBuilders.termQuery("make", "VW")), o).getCount() == 500, ""));
        Steps.step("search", () -> {
            var s = new SearchSourceBuilder().query(QueryBuilders.boolQuery().filter(QueryBuilders.termQuery("make", "VW")).filter(QueryBuilders.rangeQuery("n").gte(990)).mustNot(QueryBuilders.idsQuery().addIds("999"))).sort("n", SortOrder.DESC).size(3).trackTotalHits(true).fetchSource(new String[]{"n"}, null);
            var r = c.search(new SearchRequest("autos").source(s), o);
            Steps.check(r.getHits().getTotalHits().value == 4 && r.getHits().getAt(0).getSourceAsMap().equals(Map.of("n", 997)), r);
        });
        Steps.step("query kinds", () -> {
            for (var q : List.of(QueryBuilders.matchAllQuery(), QueryBuilders.existsQuery("make"), QueryBuilders.termsQuery("make", "VW", "Saab")))
                Steps.check(c.search(new SearchRequest("autos").source(new SearchSourceBuilder().query(q)), o).getHits().getTotalHits().value == 1000, q);
            for (var q : List.of(QueryBuilders.prefixQuery("make", "V"), QueryBuilders.wildcardQuery("make", "S*"), QueryBuilders.matchQuery("make.keyword", "VW"), QueryBuilders.matchQuery("make", "VW")))
                Steps.check(c.search(new SearchRequest("autos").source(new SearchSourceBuilder().query(q)), o).getHits().getTotalHits().value == 500, q);
            for (var q : List.of(QueryBuilders.constantScoreQuery(QueryBuilders.termQuery("n", 5)), QueryBuilders.rangeQuery("n").gt(4).lt(6)))
                Steps.check(c.search(new SearchRequest("autos").source(new SearchSourceBuilder().query(q)), o).getHits().getTotalHits().value == 1, q);
        });
        Steps.step("aggs", () -> {
            var s = new SearchSourceBuilder().size(0)
                .aggregation(AggregationBuilders.terms("makes").field("make").subAggregation(AggregationBuilders.avg("p").field("price")))
                .aggregation(AggregationBuilders.terms("ns").field("n").size(3))
                .aggregation(AggregationBuilders.stats("st").field("n")).aggregation(AggregationBuilders.extendedStats("es").field("n"))
                .aggregation(AggregationBuilders.cardinality("card").field("make"))
                .aggregation(AggregationBuilders.percentiles("pc").field("n").percentiles(50, 99))
                .aggregation(AggregationBuilders.histogram("h").field("n").interval(100))
                .aggregation(AggregationBuilders.dateHistogram("dh").field("at").calendarInterval(DateHistogramInterval.MONTH))
                .aggregation(AggregationBuilders.range("rg").field("n").addUnboundedTo(10).addUnboundedFrom(10))
                .aggregation(AggregationBuilders.filter("fl", QueryBuilders.termQuery("make", "VW")).subAggregation(AggregationBuilders.max("mx").field("n")))
                .aggregation(AggregationBuilders.missing("ms").field("none"))
                .aggregation(AggregationBuilders.composite("co", List.of(new TermsValuesSourceBuilder("make").field("make"))).size(1))
                .aggregation(AggregationBuilders.topHits("th").size(1).sort("n", SortOrder.DESC))
                .aggregation(AggregationBuilders.dateRange("dr").field("at").addUnboundedFrom("2024-06-01"))
                .aggregation(AggregationBuilders.filters("fs", new FiltersAggregator.KeyedFilter("vw", QueryBuilders.termQuery("make", "VW"))));
            var g = c.search(new SearchRequest("autos").source(s), o).getAggregations();
            Steps.check(((Terms) g.get("makes")).getBuckets().size() == 2 && ((Avg) ((Terms) g.get("makes")).getBuckets().get(0).getAggregations().get("p")).getValue() > 0, "");
            Steps.check(((Terms) g.get("ns")).getBuckets().size() == 3, "ns");
            Steps.check(((Stats) g.get("st")).getCount() == 1000, "st"); Steps.check(((ExtendedStats) g.get("es")).getVariance() > 0, "es");
            Steps.check(((Cardinality) g.get("card")).getValue() == 2, "card"); Steps.check(((Percentiles) g.get("pc")).percentile(50) > 400, "pc");
            Steps.check(((Histogram) g.get("h")).getBuckets().size() == 10 && ((Histogram) g.get("dh")).getBuckets().size() == 12, "h");
            Steps.check(((Histogram) g.get("dh")).getBuckets().get(0).getKeyAsString().startsWith("2024-01-01"), "dh");
            Steps.check(((Range) g.get("rg")).getBuckets().get(0).getDocCount() == 10, "rg");
            Steps.check(((Max) ((Filter) g.get("fl")).getAggregations().get("mx")).getValue() == 999, "fl");
            Steps.check(((CompositeAggregation) g.get("co")).afterKey().get("make").equals("Saab"), "co");
            Steps.check(((TopHits) g.get("th")).getHits().getAt(0).getSourceAsMap().get("n").equals(999), "th");
            Steps.check(((Filters) g.get("fs")).getBucketByKey("vw").getDocCount() == 500, "fs");
        });
        Steps.step("scroll", () -> {
            var r = c.search(new SearchRequest("autos").source(new SearchSourceBuilder().size(300)).scroll(TimeValue.timeValueMinutes(1)), o);
            int seen = 0; while (r.getHits().getHits().length > 0) { seen += r.getHits().getHits().length; r = c.scroll(new SearchScrollRequest(r.getScrollId()).scroll(TimeValue.timeValueMinutes(1)), o); }
            var k = new ClearScrollRequest(); k.addScrollId(r.getScrollId()); Steps.check(c.clearScroll(k, o).isSucceeded() && seen == 1000, seen);
        });
        Steps.step("search after", () -> { var s = new SearchSourceBuilder().size(400).sort("n", SortOrder.ASC); var r = c.search(new SearchRequest("autos").source(s), o); var p = c.search(new SearchRequest("autos").source(s.searchAfter(r.getHits().getAt(399).getSortValues())), o); Steps.check(p.getHits().getAt(0).getId().equals("400"), p.getHits().getAt(0).getId()); });
        Steps.step("msearch", () -> { var m = new MultiSearchRequest().add(new SearchRequest("autos").source(new SearchSourceBuilder().size(1))).add(new SearchRequest("none")); var r = c.msearch(m, o); Steps.check(!r.getResponses()[0].isFailure() && r.getResponses()[1].isFailure(), ""); });
        Steps.step("pit", () -> {
            var p = c.createPit(new CreatePitRequest(TimeValue.timeValueMinutes(1), true, "autos"), o);
            c.index(new IndexRequest("autos").id("later").source("n", -1), o);
            var s = new SearchSourceBuilder().size(400).sort("n", SortOrder.ASC).pointInTimeBuilder(new PointInTimeBuilder(p.getId()).setKeepAlive(TimeValue.timeValueMinutes(1)));
            int seen = 0;
            for (var hits = c.search(new SearchRequest().source(s), o).getHits().getHits(); hits.length > 0; hits = c.search(new SearchRequest().source(s), o).getHits().getHits()) {
                for (var hit : hits) Steps.check(hit.getId().equals("" + seen++), hit);
                s.searchAfter(hits[hits.length - 1].getSortValues());
            }
            Steps.check(seen == 1000, seen);
            var points = c.getAllPits(o).getPitInfos();
            Steps.check(points.size() == 1 && points.get(0).getPitId().equals(p.getId()), points);
            Steps.check(c.deletePit(new DeletePitRequest(p.getId()), o).getDeletePitResults().get(0).isSuccessful(), "delete");
            c.delete(new DeleteRequest("autos", "later"), o);
        });
        Steps.step("reindex", () -> { var r = new ReindexRequest(); r.setSourceIndices("autos"); r.setDestIndex("copy"); Steps.check(c.reindex(r, o).getCreated() == 1000, ""); });
        Steps.step("reindex task", () -> { var r = new ReindexRequest(); r.setSourceIndices("autos"); r.setDestIndex("copy2"); r.setSlices(2); var t = new TaskId(c.submitReindexTask(r, o).getTask()); for (int i = 0; i < 1000; i++) { var state = c.tasks().get(new GetTaskRequest(t.getNodeId(), t.getId()), o); if (state.isPresent() && state.get().isCompleted()) { var status = ((org.opensearch.tasks.RawTaskStatus) state.get().getTaskInfo().getStatus()).toMap(); Steps.check(status.get("created").equals(1000) && ((List<?>) status.get("slices")).size() == 2, status); return; } Thread.sleep(20); } Steps.check(false, "the task does not end"); });
        Steps.step("updateByQuery", () -> { var r = new UpdateByQueryRequest("copy"); r.setQuery(QueryBuilders.termQuery("make", "VW")); Steps.check(c.updateByQuery(r, o).getUpdated() == 500, ""); });
        Steps.step("deleteByQuery", () -> { var r = new DeleteByQueryRequest("copy"); r.setQuery(QueryBuilders.termQuery("make", "VW")); Steps.check(c.deleteByQuery(r, o).getDeleted() == 500, ""); });
        Steps.step("aliases", () -> { Steps.check(c.indices().updateAliases(new IndicesAliasesRequest().addAliasAction(IndicesAliasesRequest.AliasActions.add().index("autos").alias("al")), o).isAcknowledged(), ""); Steps.check(c.indices().getAlias(new GetAliasesRequest("al"), o).getAliases().containsKey("autos"), ""); Steps.check(c.indices().existsAlias(new GetAliasesRequest("al"), o), ""); });
        Steps.step("fieldCaps", () -> Steps.check(c.fieldCaps(new FieldCapabilitiesRequest().fields("*").indices("autos"), o).getField("n").containsKey("long"), ""));
        Steps.step("settings", () -> c.indices().getSettings(new org.opensearch.action.admin.indices.settings.get.GetSettingsRequest().indices("autos"), o));
        Steps.step("analyze", () -> Steps.check(c.indices().analyze(AnalyzeRequest.withGlobalAnalyzer("standard", "Hello World"), o).getTokens().size() == 2, ""));
        Steps.step("health", () -> Steps.check(c.cluster().health(new org.opensearch.action.admin.cluster.health.ClusterHealthRequest("autos"), o).getStatus() != null, ""));
        Steps.step("cluster settings", () -> c.cluster().getSettings(new org.opensearch.action.admin.cluster.settings.ClusterGetSettingsRequest(), o));
        Steps.step("tasks", () -> c.tasks().list(new org.opensearch.action.admin.cluster.node.tasks.list.ListTasksRequest(), o));
        // What the client has no calls for, it sends as requests of its low-level client.
        Steps.step("cat indices", () -> { var rows = lowLevel(c, "/_cat/indices/autos?format=json"); Steps.check(rows.size() == 1 && rows.at("/0/index").asText().equals("autos") && rows.at("/0/docs.count").asText().equals("1000"), rows); });
        Steps.step("index stats", () -> { var stats = lowLevel(c, "/autos/_stats"); Steps.check(stats.at("/indices/autos/primaries/docs/count").asInt() == 1000, stats); });
        Steps.step("nodes stats", () -> { var stats = lowLevel(c, "/_nodes/stats"); Steps.check(stats.at("/_nodes/successful").asInt() == 1 && stats.at("/nodes").size() == 1, stats); });
        Steps.step("composable template", () -> { var t = new PutComposableIndexTemplateRequest().name("ct").indexTemplate(new org.opensearch.cluster.metadata.ComposableIndexTemplate(List.of("qq-*"), null, null, null, null, null)); Steps.check(c.indices().putIndexTemplate(t, o).isAcknowledged(), ""); Steps.check(c.indices().getIndexTemplate(new GetComposableIndexTemplateRequest("ct"), o).getIndexTemplates().size() == 1, "ct"); c.indices().deleteIndexTemplate(new DeleteComposableIndexTemplateRequest("ct"), o); });
        Steps.step("sink of Kafka", () -> sink(c, o));
        Steps.step("flush/forcemerge", () -> { c.indices().flush(new org.opensearch.action.admin.indices.flush.FlushRequest("autos"), o); c.indices().forcemerge(new org.opensearch.action.admin.indices.forcemerge.ForceMergeRequest("autos"), o); });
        Steps.step("missing index", () -> { try { c.search(new SearchRequest("none"), o); Steps.check(false, ""); } catch (org.opensearch.OpenSearchStatusException e) { Steps.check(e.status().getStatus() == 404 && e.getDetailedMessage().contains("index_not_found"), e); } });
        Steps.step("delete index", () -> { for (var i : List.of("autos", "copy", "copy2")) Steps.check(c.indices().delete(new DeleteIndexRequest(i), o).isAcknowledged(), ""); });
        c.close();
    }

    /** The answer to a request that the client has no call for. */
    static JsonNode lowLevel(RestHighLevelClient c, String path) throws Exception {
        var answer = c.getLowLevelClient().performRequest(new Request("GET", path));
        return new ObjectMapper().readTree(answer.getEntity().getContent());
    }

    /** Documents in bulks that the client's helper forms. */
    static void bulkProcessor(RestHighLevelClient c, RequestOptions o) throws Exception {
        var items = new java.util.concurrent.ConcurrentLinkedQueue<BulkItemResponse>();
        var errors = new java.util.concurrent.ConcurrentLinkedQueue<Throwable>();
        var listener = new BulkProcessor.Listener() {
            public void beforeBulk(long id, BulkRequest request) {}

            public void afterBulk(long id, BulkRequest request, BulkResponse response) {
                items.addAll(List.of(response.getItems()));
            }

            public void afterBulk(long id, BulkRequest request, Throwable failure) {
                errors.add(failure);
            }
        };
        var processor = BulkProcessor.builder((request, done) -> c.bulkAsync(request, o, done), listener).setBulkActions(100).build();
        for (int n = 0; n < 250; n++) processor.add(new IndexRequest("processed").id("" + n).source("n", n));
        processor.add(new IndexRequest("processed").id("0").source("n", 0).create(true));
        Steps.check(processor.awaitClose(30, java.util.concurrent.TimeUnit.SECONDS) && errors.isEmpty(), errors);
        Steps.check(items.size() == 251 && items.stream().filter(BulkItemResponse::isFailed).map(item -> item.getFailure().getStatus()).toList().equals(List.of(org.opensearch.core.rest.RestStatus.CONFLICT)), items.size());
        Steps.check(c.count(new CountRequest("processed"), o).getCount() == 250, "count");
        c.indices().delete(new DeleteIndexRequest("processed"), o);
    }

    /**
     * The calls of Aiven's OpenSearch connector for Apache Kafka, which is in no registry, by its defaults: keys are
     * ids, offsets are external versions.
     */
    static void sink(RestHighLevelClient c, RequestOptions o) throws Exception {
        Steps.check(c.info(o).getVersion().getNumber() != null, "version");
        Steps.check(!c.indices().exists(new GetIndexRequest("topic"), o), "exists");
        c.indices().create(new CreateIndexRequest("topic"), o);
        try {
            c.indices().create(new CreateIndexRequest("topic"), o);
            Steps.check(false, "created twice");
        } catch (org.opensearch.OpenSearchStatusException e) {
            Steps.check(e.getMessage().contains("resource_already_exists_exception"), e);
        }
        var empty = c.indices().getMapping(new GetMappingsRequest().indices("topic"), o).mappings().get("topic");
        Steps.check(empty != null && empty.sourceAsMap() != null, empty);
        var mapping = "{\"properties\":{\"name\":{\"type\":\"text\",\"fields\":{\"keyword\":{\"type\":\"keyword\",\"ignore_above\":256}}},\"n\":{\"type\":\"integer\"},\"at\":{\"type\":\"date\"}}}";
        Steps.check(c.indices().putMapping(new PutMappingRequest("topic").source(mapping, XContentType.JSON), o).isAcknowledged(), "mapping");
        // Offsets begin at 0. A batch that is sent again after a lost answer conflicts, which the connector ignores.
        for (int times = 0; times < 2; times++) {
            var records = new BulkRequest();
            for (int offset = 0; offset < 500; offset++) {
                if (offset % 100 == 99) {
                    records.add(external(new DeleteRequest("topic").id("key-" + (offset - 1) % 50), offset));
                } else {
                    records.add(external(new IndexRequest("topic").id("key-" + offset % 50).opType(org.opensearch.action.DocWriteRequest.OpType.INDEX).source("{\"name\":\"n\",\"n\":" + offset + ",\"at\":1700000000000}", XContentType.JSON), offset));
                }
            }
            var answer = c.bulk(records, o);
            Steps.check(answer.hasFailures() == (times == 1), answer.buildFailureMessage());
            for (var item : answer.getItems()) {
                Steps.check(times == 0 || item.getFailure().getStatus() == org.opensearch.core.rest.RestStatus.CONFLICT, item.getFailureMessage());
            }
        }
        Steps.check(c.count(new CountRequest("topic"), o).getCount() == 49, c.count(new CountRequest("topic"), o).getCount());
        Steps.check(c.get(new GetRequest("topic", "key-7"), o).getVersion() == 457, "version of key-7");
        // index.write.method=upsert; keys of topics that have none.
        var upserts = new BulkRequest().add(new UpdateRequest("topic", "key-7").doc("{\"n\":-1}", XContentType.JSON).upsert("{\"n\":-1}", XContentType.JSON).docAsUpsert(true).retryOnConflict(3)).add(new IndexRequest("topic").id("topic+0+12").source("n", 12));
        Steps.check(!c.bulk(upserts, o).hasFailures(), "upserts");
        Steps.check(c.get(new GetRequest("topic", "key-7"), o).getSourceAsMap().get("name").equals("n"), "merged");
        c.indices().delete(new DeleteIndexRequest("topic"), o);
    }

    static <R extends org.opensearch.action.DocWriteRequest<?>> R external(R request, long offset) {
        request.versionType(org.opensearch.index.VersionType.EXTERNAL);
        request.version(offset);
        return request;
    }
}
