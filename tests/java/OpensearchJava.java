// opensearch-java, as its users write it, against a server on the port given: every step is checked.
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.*;
import org.apache.hc.core5.http.HttpHost;
import org.opensearch.client.json.JsonData;
import org.opensearch.client.json.jackson.JacksonJsonpMapper;
import org.opensearch.client.opensearch.OpenSearchClient;
import org.opensearch.client.opensearch._types.*;
import org.opensearch.client.opensearch._types.aggregations.*;
import org.opensearch.client.opensearch._types.mapping.*;
import org.opensearch.client.opensearch._types.query_dsl.*;
import org.opensearch.client.opensearch.core.*;
import org.opensearch.client.opensearch.core.bulk.BulkOperation;
import org.opensearch.client.opensearch.generic.Requests;
import org.opensearch.client.transport.httpclient5.ApacheHttpClient5TransportBuilder;
import org.opensearch.client.transport.httpclient5.ResponseException;

public class OpensearchJava {
    public static class Car {
        public long n;
        public String make;
        public double price;
        public String at;
    }

    public static void main(String[] a) {
        Steps.runAndExit(() -> run(a));
    }

    static void run(String[] a) throws Exception {
        var host = new HttpHost("http", "127.0.0.1", Integer.parseInt(a[0]));
        var transport = ApacheHttpClient5TransportBuilder.builder(host).setMapper(new JacksonJsonpMapper()).build();
        var c = new OpenSearchClient(transport);
        Steps.step("info", () -> Steps.check(c.info().version().distribution().equals("opensearch"), c.info().version().distribution()));
        Steps.step("ping", () -> Steps.check(c.ping().value(), "ping"));
        Steps.step("create", () -> Steps.check(c.indices().create(r -> r.index("cars").settings(s -> s.numberOfShards("2").numberOfReplicas("0")).mappings(m -> m
            .properties("n", p -> p.long_(l -> l)).properties("make", p -> p.keyword(k -> k)).properties("at", p -> p.date(d -> d)))).acknowledged(), "ack"));
        Steps.step("exists", () -> Steps.check(c.indices().exists(r -> r.index("cars")).value() && !c.indices().exists(r -> r.index("boats")).value(), "exists"));
        Steps.step("getMapping", () -> Steps.check(c.indices().getMapping(r -> r.index("cars")).result().get("cars").mappings().properties().get("n").isLong(), "m"));
        Steps.step("getSettings", () -> Steps.check(c.indices().getSettings(r -> r.index("cars")).result().get("cars").settings().index().numberOfShards().equals("2"), "shards"));
        Steps.step("getIndex", () -> Steps.check(c.indices().get(r -> r.index("cars")).result().containsKey("cars"), "g"));
        Steps.step("putMapping", () -> Steps.check(c.indices().putMapping(r -> r.index("cars").properties("price", p -> p.double_(d -> d))).acknowledged(), "pm"));
        Steps.step("template", () -> Steps.check(c.indices().putIndexTemplate(r -> r.name("t").indexPatterns("logs-*").template(t -> t.mappings(m -> m.properties("x", p -> p.keyword(k -> k))))).acknowledged(), "pt"));
        Steps.step("getTemplate", () -> Steps.check(c.indices().getIndexTemplate(r -> r.name("t")).indexTemplates().size() == 1, "gt"));
        Steps.step("existsTemplate", () -> Steps.check(c.indices().existsIndexTemplate(r -> r.name("t")).value(), "et"));
        Steps.step("deleteTemplate", () -> Steps.check(c.indices().deleteIndexTemplate(r -> r.name("t")).acknowledged(), "dt"));
        Steps.step("bulk", () -> {
            var ops = new ArrayList<BulkOperation>();
            for (int n = 0; n < 1000; n++) {
                var car = new Car(); car.n = n; car.make = n % 2 == 1 ? "VW" : "Saab"; car.price = n * 1.5; car.at = String.format("2024-%02d-%02d", n % 12 + 1, n % 28 + 1);
                String id = "" + n;
                ops.add(BulkOperation.of(o -> o.index(i -> i.index("cars").id(id).document(car))));
            }
            var r = c.bulk(b -> b.operations(ops).refresh(Refresh.WaitFor));
            Steps.check(!r.errors() && r.items().size() == 1000 && r.items().get(0).status() == 201, r.items().get(0).status());
        });
        Steps.step("bulk all", () -> {
            var car = new Car(); car.n = 5000;
            var r = c.bulk(b -> b.index("cars").operations(o -> o.create(i -> i.id("x").document(car))).operations(o -> o.update(u -> u.id("x").document(Map.of("make", "Fiat")))).operations(o -> o.delete(d -> d.id("x"))).operations(o -> o.delete(d -> d.id("nix"))));
            Steps.check(r.items().get(3).status() == 404, r.items().get(3).status());
        });
        Steps.step("index", () -> { var car = new Car(); car.n = 2000; car.make = "Audi"; Steps.check(c.index(i -> i.index("cars").id("a").document(car)).result() == Result.Created, "r"); });
        Steps.step("index without id", () -> { var car = new Car(); car.n = 2001; car.make = "Audi"; var r = c.index(i -> i.index("cars").document(car)); c.delete(d -> d.index("cars").id(r.id())); });
        Steps.step("create doc", () -> { var car = new Car(); Steps.check(c.create(i -> i.index("cars").id("made").document(car)).result() == Result.Created, "r"); Steps.check(c.delete(d -> d.index("cars").id("made")).result() == Result.Deleted, "d"); });
        Steps.step("create doc conflict", () -> { var car = new Car(); try { c.create(i -> i.index("cars").id("a").document(car)); Steps.check(false, "no conflict"); } catch (ResponseException e) { Steps.check(e.status() == 409, e.status()); } });
        Steps.step("get", () -> { var g = c.get(r -> r.index("cars").id("7"), Car.class); Steps.check(g.found() && g.source().n == 7 && g.seqNo() != null && g.primaryTerm() != null, g.source()); });
        Steps.step("get none", () -> Steps.check(!c.get(r -> r.index("cars").id("none"), Car.class).found(), "f"));
        Steps.step("getSource", () -> Steps.check(c.getSource(r -> r.index("cars").id("7"), Car.class).valueBody().n == 7, "s"));
        Steps.step("existsDoc", () -> Steps.check(c.exists(r -> r.index("cars").id("7")).value(), "e"));
        Steps.step("mget", () -> Steps.check(c.mget(r -> r.index("cars").ids("1", "2", "no"), Car.class).docs().stream().map(doc -> doc.result().found()).toList().equals(List.of(true, true, false)), "m"));
        Steps.step("update", () -> Steps.check(c.update(r -> r.index("cars").id("a").doc(Map.of("price", 9.5)), Car.class).result() == Result.Updated, "u"));
        Steps.step("upsert", () -> { var car = new Car(); car.n = 9; Steps.check(c.update(r -> r.index("cars").id("up").doc(car).docAsUpsert(true), Car.class).result() == Result.Created, "u"); c.delete(d -> d.index("cars").id("up")); });
        Steps.step("if_seq_no", () -> { var g = c.get(r -> r.index("cars").id("7"), Car.class); var car = g.source(); c.index(i -> i.index("cars").id("7").document(car).ifSeqNo(g.seqNo()).ifPrimaryTerm(g.primaryTerm())); try { c.index(i -> i.index("cars").id("7").document(car).ifSeqNo(g.seqNo()).ifPrimaryTerm(g.primaryTerm())); Steps.check(false, "no conflict"); } catch (ResponseException e) { Steps.check(e.status() == 409, e.status()); } });
        Steps.step("external version", () -> {
            var car = new Car();
            Steps.check(c.index(i -> i.index("cars").id("v").document(car).version(5L).versionType(VersionType.External)).version() == 5, "version");
            try { c.index(i -> i.index("cars").id("v").document(car).version(5L).versionType(VersionType.External)); Steps.check(false, "no conflict"); } catch (ResponseException e) { Steps.check(e.status() == 409, e.status()); }
            Steps.check(c.delete(d -> d.index("cars").id("v").version(6L).versionType(VersionType.External)).version() == 6, "version of the delete");
        });
        Steps.step("delete", () -> Steps.check(c.delete(r -> r.index("cars").id("a")).result() == Result.Deleted, "d"));
        Steps.step("refresh", () -> c.indices().refresh(r -> r.index("cars")));
        Steps.step("flush", () -> c.indices().flush(r -> r.index("cars")));
        Steps.step("forcemerge", () -> c.indices().forcemerge(r -> r.index("cars")));
        Steps.step("count", () -> Steps.check(c.count(r -> r.index("cars")).count() == 1000, c.count(r -> r.index("cars")).count()));
        Steps.step("search", () -> {
            var r = c.search(s -> s.index("cars").query(q -> q.bool(b -> b.filter(f -> f.term(t -> t.field("make").value(FieldValue.of("VW")))).filter(f -> f.range(g -> g.field("n").gte(JsonData.of(990))))))
                .sort(o -> o.field(f -> f.field("n").order(SortOrder.Desc))).size(3).trackTotalHits(t -> t.enabled(true)), Car.class);
            Steps.check(r.hits().total().value() == 5 && r.hits().hits().get(0).source().n == 999, r.hits().total());
        });
        Steps.step("match_all source filter", () -> { var r = c.search(s -> s.index("cars").query(q -> q.matchAll(m -> m)).source(f -> f.filter(i -> i.includes("n", "make"))).from(10).size(5), Map.class); Steps.check(r.hits().hits().size() == 5 && r.hits().hits().get(0).source().size() == 2, r.hits().hits().get(0).source()); });
        Steps.step("queries", () -> {
            Steps.check(c.count(r -> r.index("cars").query(q -> q.terms(t -> t.field("make").terms(v -> v.value(List.of(FieldValue.of("VW"), FieldValue.of("x"))))))).count() == 500, "terms");
            Steps.check(c.count(r -> r.index("cars").query(q -> q.exists(t -> t.field("make")))).count() == 1000, "exists");
            Steps.check(c.count(r -> r.index("cars").query(q -> q.ids(t -> t.values("1", "2")))).count() == 2, "ids");
            Steps.check(c.count(r -> r.index("cars").query(q -> q.prefix(t -> t.field("make").value("V")))).count() == 500, "prefix");
            Steps.check(c.count(r -> r.index("cars").query(q -> q.wildcard(t -> t.field("make").value("S*b")))).count() == 500, "wildcard");
            Steps.check(c.count(r -> r.index("cars").query(q -> q.bool(b -> b.mustNot(m -> m.term(t -> t.field("make").value(FieldValue.of("VW")))).should(m -> m.term(t -> t.field("n").value(FieldValue.of(2)))).minimumShouldMatch("1")))).count() == 1, "bool");
        });
        Steps.step("aggs", () -> {
            var r = c.search(s -> s.index("cars").size(0)
                .aggregations("makes", g -> g.terms(t -> t.field("make").size(5)).aggregations("p", p -> p.avg(v -> v.field("price"))))
                .aggregations("st", g -> g.stats(t -> t.field("n")))
                .aggregations("es", g -> g.extendedStats(t -> t.field("n")))
                .aggregations("mx", g -> g.max(t -> t.field("n")))
                .aggregations("card", g -> g.cardinality(t -> t.field("make")))
                .aggregations("pc", g -> g.percentiles(t -> t.field("n").percents(50.0, 99.0)))
                .aggregations("h", g -> g.histogram(t -> t.field("n").interval(100.0)))
                .aggregations("dh", g -> g.dateHistogram(t -> t.field("at").calendarInterval(CalendarInterval.Month)))
                .aggregations("rg", g -> g.range(t -> t.field("n").ranges(x -> x.to("10")).ranges(x -> x.from("10"))))
                .aggregations("dr", g -> g.dateRange(t -> t.field("at").ranges(x -> x.from(f -> f.expr("2024-06-01")))))
                .aggregations("fl", g -> g.filter(f -> f.term(t -> t.field("make").value(FieldValue.of("VW")))).aggregations("vc", v -> v.valueCount(x -> x.field("n"))))
                .aggregations("fs", g -> g.filters(f -> f.filters(b -> b.keyed(Map.of("vw", Query.of(q -> q.term(t -> t.field("make").value(FieldValue.of("VW")))))))))
                .aggregations("ms", g -> g.missing(m -> m.field("none")))
                .aggregations("co", g -> g.composite(m -> m.size(1).sources(List.of(Map.of("make", CompositeAggregationSource.of(x -> x.terms(t -> t.field("make"))))))))
                .aggregations("th", g -> g.topHits(t -> t.size(1).sort(o -> o.field(f -> f.field("n").order(SortOrder.Desc)))))
                , Car.class);
            var g = r.aggregations();
            Steps.check(g.get("makes").sterms().buckets().array().size() == 2, "terms");
            Steps.check(g.get("makes").sterms().buckets().array().get(0).aggregations().get("p").avg().value() > 0, "avg");
            Steps.check(g.get("st").stats().count() == 1000, "stats"); Steps.check(g.get("es").extendedStats().variance() > 0, "es");
            Steps.check(g.get("mx").max().value() == 999, "max"); Steps.check(g.get("card").cardinality().value() == 2, "card");
            Steps.check(g.get("pc").tdigestPercentiles().values().keyed().size() == 2, "pc");
            Steps.check(g.get("h").histogram().buckets().array().size() == 10, "h");
            Steps.check(g.get("dh").dateHistogram().buckets().array().size() == 12, "dh");
            Steps.check(g.get("rg").range().buckets().array().get(0).docCount() == 10, "rg");
            Steps.check(g.get("dr").dateRange().buckets().array().size() == 1, "dr");
            Steps.check(g.get("fl").filter().aggregations().get("vc").valueCount().value() == 500, "fl");
            Steps.check(g.get("fs").filters().buckets().keyed().get("vw").docCount() == 500, "fs");
            Steps.check(g.get("ms").missing().docCount() == 1000, "ms");
            Steps.check(g.get("co").composite().buckets().array().size() == 1 && g.get("co").composite().afterKey() != null, "co");
            Steps.check(g.get("th").topHits().hits().hits().get(0).source().to(Car.class).n == 999, "th");
        });
        Steps.step("numeric terms", () -> { var r = c.search(s -> s.index("cars").size(0).aggregations("n", g -> g.terms(t -> t.field("n").size(2))).aggregations("p", g -> g.terms(t -> t.field("price").size(2))), Car.class); Steps.check(r.aggregations().get("n").lterms().buckets().array().size() == 2 && r.aggregations().get("p").dterms().buckets().array().size() == 2, "l"); });
        Steps.step("scroll", () -> {
            var r = c.search(s -> s.index("cars").size(300).scroll(Time.of(t -> t.time("1m"))), Car.class);
            int seen = r.hits().hits().size(); String id = r.scrollId();
            while (true) { String i = id; var p = c.scroll(s -> s.scrollId(i).scroll(Time.of(t -> t.time("1m"))), Car.class); if (p.hits().hits().isEmpty()) break; seen += p.hits().hits().size(); id = p.scrollId(); }
            String last = id; Steps.check(c.clearScroll(s -> s.scrollId(last)).succeeded() && seen == 1000, seen);
        });
        Steps.step("pit", () -> {
            var pit = c.createPit(p -> p.targetIndexes("cars").keepAlive(Time.of(t -> t.time("1m"))));
            var r = c.search(s -> s.pit(org.opensearch.client.opensearch.core.search.Pit.of(p -> p.id(pit.pitId()).keepAlive("1m"))).size(400).sort(o -> o.field(f -> f.field("n"))), Car.class);
            var after = r.hits().hits().get(399).sort();
            var q = c.search(s -> s.pit(org.opensearch.client.opensearch.core.search.Pit.of(p -> p.id(pit.pitId()).keepAlive("1m"))).size(400).sort(o -> o.field(f -> f.field("n"))).searchAfter(after), Car.class);
            Steps.check(q.hits().hits().get(0).source().n == 400, q.hits().hits().get(0).source().n);
            Steps.check(c.listAllPit().pits().size() == 1, "pits");
            Steps.check(c.deletePit(p -> p.pitId(List.of(pit.pitId()))).pits().get(0).successful(), "del");
        });
        Steps.step("msearch", () -> { var r = c.msearch(m -> m.searches(x -> x.header(h -> h.index("cars")).body(b -> b.query(q -> q.matchAll(y -> y)).size(1))).searches(x -> x.header(h -> h.index("none")).body(b -> b.query(q -> q.matchAll(y -> y)))), Car.class); Steps.check(r.responses().get(0).isResult() && r.responses().get(1).isFailure(), "ms"); });
        Steps.step("updateByQuery", () -> Steps.check(c.updateByQuery(u -> u.index("cars").query(q -> q.term(t -> t.field("n").value(FieldValue.of(5))))).updated() == 1, "u"));
        Steps.step("reindex", () -> Steps.check(c.reindex(r -> r.source(s -> s.index("cars")).dest(d -> d.index("copy"))).created() == 1000, "r"));
        Steps.step("reindex async", () -> {
            var task = c.reindex(x -> x.source(s -> s.index("cars")).dest(d -> d.index("copy2")).slices(2L).waitForCompletion(false)).task();
            var shown = c.tasks().get(g -> g.taskId(task));
            for (int i = 0; i < 100 && !shown.completed(); i++) { Thread.sleep(50); shown = c.tasks().get(g -> g.taskId(task)); }
            Steps.check(shown.completed() && shown.response().created() == 1000 && shown.task().status().created() == 1000, shown.completed());
            // The client's type of a task's response has no slices.
            try (var raw = c.generic().execute(Requests.builder().method("GET").endpoint("/_tasks/" + task).build())) {
                var slices = new ObjectMapper().readTree(raw.getBody().get().bodyAsString()).at("/response/slices");
                Steps.check(slices.size() == 2 && slices.at("/0/created").asInt() + slices.at("/1/created").asInt() == 1000, slices);
            }
        });
        Steps.step("slices", () -> {
            long created = 0;
            for (int n = 0; n < 2; n++) { int id = n; created += c.reindex(r -> r.source(s -> s.index("cars").slice(x -> x.id(id).max(2))).dest(d -> d.index("copy2"))).total(); }
            Steps.check(created == 1000, created);
        });
        Steps.step("deleteByQuery", () -> Steps.check(c.deleteByQuery(u -> u.index("copy").query(q -> q.range(t -> t.field("n").lt(JsonData.of(5))))).deleted() == 5, "d"));
        Steps.step("tasks", () -> c.tasks().list());
        Steps.step("aliases", () -> { Steps.check(c.indices().updateAliases(u -> u.actions(x -> x.add(d -> d.index("cars").alias("autos"))).actions(x -> x.add(d -> d.index("copy").alias("autos2").filter(f -> f.term(t -> t.field("make").value(FieldValue.of("VW"))))))).acknowledged(), "ua"); Steps.check(c.indices().getAlias(g -> g.name("autos")).result().containsKey("cars"), "ga"); Steps.check(c.indices().existsAlias(g -> g.name("autos")).value(), "ea"); Steps.check(c.count(r -> r.index("autos")).count() == 1000, "ac"); });
        Steps.step("fieldCaps", () -> Steps.check(c.fieldCaps(f -> f.index("cars").fields("*")).fields().get("n").containsKey("long"), "fc"));
        Steps.step("analyze", () -> Steps.check(c.indices().analyze(x -> x.analyzer("standard").text("Hello World")).tokens().size() == 2, "an"));
        Steps.step("health", () -> Steps.check(c.cluster().health().status() == HealthStatus.Green, "status"));
        Steps.step("cluster stats", () -> { var r = c.cluster().stats(); Steps.check(r.indices().docs().count() >= 1000 && r.nodes().count().total() == 1 && r.nodes().jvm().mem().heapMaxInBytes() > 0, r); });
        Steps.step("cluster settings", () -> c.cluster().getSettings());
        Steps.step("nodes info", () -> c.nodes().info());
        Steps.step("nodes stats", () -> { var r = c.nodes().stats(); Steps.check(r.nodeStats().successful() == 1 && r.nodes().size() == 1, r.nodes()); });
        Steps.step("index stats", () -> Steps.check(c.indices().stats(s -> s.index("cars")).indices().get("cars").primaries().docs().count() == 1000, "st"));
        Steps.step("cat indices", () -> Steps.check(c.cat().indices().valueBody().stream().anyMatch(row -> row.index().equals("cars") && row.docsCount().equals("1000")), "ci"));
        Steps.step("cat health", () -> c.cat().health());
        Steps.step("cat count", () -> c.cat().count());
        Steps.step("cat nodes", () -> c.cat().nodes());
        Steps.step("cat aliases", () -> c.cat().aliases());
        Steps.step("cat shards", () -> c.cat().shards());
        Steps.step("cat allocation", () -> c.cat().allocation());
        Steps.step("resolve", () -> c.indices().resolveIndex(r -> r.name("c*")));
        Steps.step("missing index", () -> { try { c.search(s -> s.index("none"), Car.class); Steps.check(false, "found"); } catch (OpenSearchException e) { Steps.check(e.status() == 404 && e.error().type().equals("index_not_found_exception"), e.error().type()); } });
        Steps.step("putSettings", () -> Steps.check(c.indices().putSettings(s -> s.index("cars").settings(x -> x.refreshInterval(Time.of(t -> t.time("1s"))))).acknowledged(), "ps"));
        Steps.step("deleteIndex", () -> Steps.check(c.indices().delete(d -> d.index("cars", "copy", "copy2")).acknowledged(), "di"));
        transport.close();
    }
}
