// opensearch-java, as its users write it, against a server on the port given: every step is checked.
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
import org.opensearch.client.transport.httpclient5.ApacheHttpClient5TransportBuilder;
import org.opensearch.client.transport.httpclient5.ResponseException;

public class OpensearchJava {
    public static class Car {
        public long n;
        public String make;
        public double price;
        public String at;
    }

    interface Step {
        void run() throws Exception;
    }

    /** Runs a step; a failure names it. */
    static void step(String name, Step step) {
        try {
            step.run();
        } catch (Throwable error) {
            throw new IllegalStateException(name + ": " + error, error);
        }
    }

    static void check(boolean isTrue, Object found) {
        if (!isTrue) {
            throw new IllegalStateException("found " + found);
        }
    }

    public static void main(String[] a) {
        try {
            run(a);
            System.exit(0);
        } catch (Throwable error) {
            error.printStackTrace();
            // Threads of the client may still run.
            System.exit(1);
        }
    }

    static void run(String[] a) throws Exception {
        var host = new HttpHost("http", "127.0.0.1", Integer.parseInt(a[0]));
        var transport = ApacheHttpClient5TransportBuilder.builder(host).setMapper(new JacksonJsonpMapper()).build();
        var c = new OpenSearchClient(transport);
        step("info", () -> check(c.info().version().distribution().equals("opensearch"), c.info().version().distribution()));
        step("ping", () -> check(c.ping().value(), "ping"));
        step("create", () -> check(c.indices().create(r -> r.index("cars").settings(s -> s.numberOfShards("2").numberOfReplicas("0")).mappings(m -> m
            .properties("n", p -> p.long_(l -> l)).properties("make", p -> p.keyword(k -> k)).properties("at", p -> p.date(d -> d)))).acknowledged(), "ack"));
        step("exists", () -> check(c.indices().exists(r -> r.index("cars")).value() && !c.indices().exists(r -> r.index("boats")).value(), "exists"));
        step("getMapping", () -> check(c.indices().getMapping(r -> r.index("cars")).result().get("cars").mappings().properties().get("n").isLong(), "m"));
        step("getSettings", () -> check(c.indices().getSettings(r -> r.index("cars")).result().get("cars").settings().index().numberOfShards().equals("2"), "shards"));
        step("getIndex", () -> check(c.indices().get(r -> r.index("cars")).result().containsKey("cars"), "g"));
        step("putMapping", () -> check(c.indices().putMapping(r -> r.index("cars").properties("price", p -> p.double_(d -> d))).acknowledged(), "pm"));
        step("template", () -> check(c.indices().putIndexTemplate(r -> r.name("t").indexPatterns("logs-*").template(t -> t.mappings(m -> m.properties("x", p -> p.keyword(k -> k))))).acknowledged(), "pt"));
        step("getTemplate", () -> check(c.indices().getIndexTemplate(r -> r.name("t")).indexTemplates().size() == 1, "gt"));
        step("existsTemplate", () -> check(c.indices().existsIndexTemplate(r -> r.name("t")).value(), "et"));
        step("deleteTemplate", () -> check(c.indices().deleteIndexTemplate(r -> r.name("t")).acknowledged(), "dt"));
        step("bulk", () -> {
            var ops = new ArrayList<BulkOperation>();
            for (int n = 0; n < 1000; n++) {
                var car = new Car(); car.n = n; car.make = n % 2 == 1 ? "VW" : "Saab"; car.price = n * 1.5; car.at = String.format("2024-%02d-%02d", n % 12 + 1, n % 28 + 1);
                String id = "" + n;
                ops.add(BulkOperation.of(o -> o.index(i -> i.index("cars").id(id).document(car))));
            }
            var r = c.bulk(b -> b.operations(ops).refresh(Refresh.WaitFor));
            check(!r.errors() && r.items().size() == 1000 && r.items().get(0).status() == 201, r.items().get(0).status());
        });
        step("bulk all", () -> {
            var car = new Car(); car.n = 5000;
            var r = c.bulk(b -> b.index("cars").operations(o -> o.create(i -> i.id("x").document(car))).operations(o -> o.update(u -> u.id("x").document(Map.of("make", "Fiat")))).operations(o -> o.delete(d -> d.id("x"))).operations(o -> o.delete(d -> d.id("nix"))));
            check(r.items().get(3).status() == 404, r.items().get(3).status());
        });
        step("index", () -> { var car = new Car(); car.n = 2000; car.make = "Audi"; check(c.index(i -> i.index("cars").id("a").document(car)).result() == Result.Created, "r"); });
        step("index without id", () -> { var car = new Car(); car.n = 2001; car.make = "Audi"; var r = c.index(i -> i.index("cars").document(car)); c.delete(d -> d.index("cars").id(r.id())); });
        step("create doc conflict", () -> { var car = new Car(); try { c.create(i -> i.index("cars").id("a").document(car)); check(false, "no conflict"); } catch (ResponseException e) { check(e.status() == 409, e.status()); } });
        step("get", () -> { var g = c.get(r -> r.index("cars").id("7"), Car.class); check(g.found() && g.source().n == 7 && g.seqNo() != null && g.primaryTerm() != null, g.source()); });
        step("get none", () -> check(!c.get(r -> r.index("cars").id("none"), Car.class).found(), "f"));
        step("getSource", () -> check(c.getSource(r -> r.index("cars").id("7"), Car.class).valueBody().n == 7, "s"));
        step("existsDoc", () -> check(c.exists(r -> r.index("cars").id("7")).value(), "e"));
        step("mget", () -> check(c.mget(r -> r.index("cars").ids("1", "2", "no"), Car.class).docs().size() == 3, "m"));
        step("update", () -> check(c.update(r -> r.index("cars").id("a").doc(Map.of("price", 9.5)), Car.class).result() == Result.Updated, "u"));
        step("upsert", () -> { var car = new Car(); car.n = 9; check(c.update(r -> r.index("cars").id("up").doc(car).docAsUpsert(true), Car.class).result() == Result.Created, "u"); c.delete(d -> d.index("cars").id("up")); });
        step("if_seq_no", () -> { var g = c.get(r -> r.index("cars").id("7"), Car.class); var car = g.source(); c.index(i -> i.index("cars").id("7").document(car).ifSeqNo(g.seqNo()).ifPrimaryTerm(g.primaryTerm())); try { c.index(i -> i.index("cars").id("7").document(car).ifSeqNo(g.seqNo()).ifPrimaryTerm(g.primaryTerm())); check(false, "no conflict"); } catch (ResponseException e) { check(e.status() == 409, e.status()); } });
        step("delete", () -> check(c.delete(r -> r.index("cars").id("a")).result() == Result.Deleted, "d"));
        step("refresh", () -> c.indices().refresh(r -> r.index("cars")));
        step("flush", () -> c.indices().flush(r -> r.index("cars")));
        step("forcemerge", () -> c.indices().forcemerge(r -> r.index("cars")));
        step("count", () -> check(c.count(r -> r.index("cars")).count() == 1000, c.count(r -> r.index("cars")).count()));
        step("search", () -> {
            var r = c.search(s -> s.index("cars").query(q -> q.bool(b -> b.filter(f -> f.term(t -> t.field("make").value(FieldValue.of("VW")))).filter(f -> f.range(g -> g.field("n").gte(JsonData.of(990))))))
                .sort(o -> o.field(f -> f.field("n").order(SortOrder.Desc))).size(3).trackTotalHits(t -> t.enabled(true)), Car.class);
            check(r.hits().total().value() == 5 && r.hits().hits().get(0).source().n == 999, r.hits().total());
        });
        step("match_all source filter", () -> { var r = c.search(s -> s.index("cars").query(q -> q.matchAll(m -> m)).source(f -> f.filter(i -> i.includes("n", "make"))).from(10).size(5), Map.class); check(r.hits().hits().size() == 5 && r.hits().hits().get(0).source().size() == 2, r.hits().hits().get(0).source()); });
        step("queries", () -> {
            check(c.count(r -> r.index("cars").query(q -> q.terms(t -> t.field("make").terms(v -> v.value(List.of(FieldValue.of("VW"), FieldValue.of("x"))))))).count() == 500, "terms");
            check(c.count(r -> r.index("cars").query(q -> q.exists(t -> t.field("make")))).count() == 1000, "exists");
            check(c.count(r -> r.index("cars").query(q -> q.ids(t -> t.values("1", "2")))).count() == 2, "ids");
            check(c.count(r -> r.index("cars").query(q -> q.prefix(t -> t.field("make").value("V")))).count() == 500, "prefix");
            check(c.count(r -> r.index("cars").query(q -> q.wildcard(t -> t.field("make").value("S*b")))).count() == 500, "wildcard");
            check(c.count(r -> r.index("cars").query(q -> q.bool(b -> b.mustNot(m -> m.term(t -> t.field("make").value(FieldValue.of("VW")))).should(m -> m.term(t -> t.field("n").value(FieldValue.of(2)))).minimumShouldMatch("1")))).count() == 1, "bool");
        });
        step("aggs", () -> {
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
            check(g.get("makes").sterms().buckets().array().size() == 2, "terms");
            check(g.get("makes").sterms().buckets().array().get(0).aggregations().get("p").avg().value() > 0, "avg");
            check(g.get("st").stats().count() == 1000, "stats"); check(g.get("es").extendedStats().variance() > 0, "es");
            check(g.get("mx").max().value() == 999, "max"); check(g.get("card").cardinality().value() == 2, "card");
            check(g.get("pc").tdigestPercentiles().values().keyed().size() == 2, "pc");
            check(g.get("h").histogram().buckets().array().size() == 10, "h");
            check(g.get("dh").dateHistogram().buckets().array().size() == 12, "dh");
            check(g.get("rg").range().buckets().array().get(0).docCount() == 10, "rg");
            check(g.get("dr").dateRange().buckets().array().size() == 1, "dr");
            check(g.get("fl").filter().aggregations().get("vc").valueCount().value() == 500, "fl");
            check(g.get("fs").filters().buckets().keyed().get("vw").docCount() == 500, "fs");
            check(g.get("ms").missing().docCount() == 1000, "ms");
            check(g.get("co").composite().buckets().array().size() == 1 && g.get("co").composite().afterKey() != null, "co");
            check(g.get("th").topHits().hits().hits().get(0).source().to(Car.class).n == 999, "th");
        });
        step("numeric terms", () -> { var r = c.search(s -> s.index("cars").size(0).aggregations("n", g -> g.terms(t -> t.field("n").size(2))).aggregations("p", g -> g.terms(t -> t.field("price").size(2))), Car.class); check(r.aggregations().get("n").lterms().buckets().array().size() == 2 && r.aggregations().get("p").dterms().buckets().array().size() == 2, "l"); });
        step("scroll", () -> {
            var r = c.search(s -> s.index("cars").size(300).scroll(Time.of(t -> t.time("1m"))), Car.class);
            int seen = r.hits().hits().size(); String id = r.scrollId();
            while (true) { String i = id; var p = c.scroll(s -> s.scrollId(i).scroll(Time.of(t -> t.time("1m"))), Car.class); if (p.hits().hits().isEmpty()) break; seen += p.hits().hits().size(); id = p.scrollId(); }
            String last = id; check(c.clearScroll(s -> s.scrollId(last)).succeeded() && seen == 1000, seen);
        });
        step("pit", () -> {
            var pit = c.createPit(p -> p.targetIndexes("cars").keepAlive(Time.of(t -> t.time("1m"))));
            var r = c.search(s -> s.pit(org.opensearch.client.opensearch.core.search.Pit.of(p -> p.id(pit.pitId()).keepAlive("1m"))).size(400).sort(o -> o.field(f -> f.field("n"))), Car.class);
            var after = r.hits().hits().get(399).sort();
            var q = c.search(s -> s.pit(org.opensearch.client.opensearch.core.search.Pit.of(p -> p.id(pit.pitId()).keepAlive("1m"))).size(400).sort(o -> o.field(f -> f.field("n"))).searchAfter(after), Car.class);
            check(q.hits().hits().get(0).source().n == 400, q.hits().hits().get(0).source().n);
            check(c.listAllPit().pits().size() == 1, "pits");
            check(c.deletePit(p -> p.pitId(List.of(pit.pitId()))).pits().size() == 1, "del");
        });
        step("msearch", () -> { var r = c.msearch(m -> m.searches(x -> x.header(h -> h.index("cars")).body(b -> b.query(q -> q.matchAll(y -> y)).size(1))).searches(x -> x.header(h -> h.index("none")).body(b -> b.query(q -> q.matchAll(y -> y)))), Car.class); check(r.responses().get(0).isResult() && r.responses().get(1).isFailure(), "ms"); });
        step("updateByQuery", () -> check(c.updateByQuery(u -> u.index("cars").query(q -> q.term(t -> t.field("n").value(FieldValue.of(5))))).updated() == 1, "u"));
        step("reindex", () -> check(c.reindex(r -> r.source(s -> s.index("cars")).dest(d -> d.index("copy"))).created() == 1000, "r"));
        step("reindex async", () -> { var r = c.reindex(x -> x.source(s -> s.index("cars")).dest(d -> d.index("copy2")).waitForCompletion(false)); var task = r.task(); for (int i = 0; i < 100; i++) { var t = c.tasks().get(g -> g.taskId(task)); if (t.completed()) return; Thread.sleep(50); } check(false, "never"); });
        step("deleteByQuery", () -> check(c.deleteByQuery(u -> u.index("copy").query(q -> q.range(t -> t.field("n").lt(JsonData.of(5))))).deleted() == 5, "d"));
        step("tasks", () -> c.tasks().list());
        step("aliases", () -> { check(c.indices().updateAliases(u -> u.actions(x -> x.add(d -> d.index("cars").alias("autos"))).actions(x -> x.add(d -> d.index("copy").alias("autos2").filter(f -> f.term(t -> t.field("make").value(FieldValue.of("VW"))))))).acknowledged(), "ua"); check(c.indices().getAlias(g -> g.name("autos")).result().containsKey("cars"), "ga"); check(c.indices().existsAlias(g -> g.name("autos")).value(), "ea"); check(c.count(r -> r.index("autos")).count() == 1000, "ac"); });
        step("fieldCaps", () -> check(c.fieldCaps(f -> f.index("cars").fields("*")).fields().get("n").containsKey("long"), "fc"));
        step("analyze", () -> check(c.indices().analyze(x -> x.analyzer("standard").text("Hello World")).tokens().size() == 2, "an"));
        step("health", () -> check(c.cluster().health().status() == HealthStatus.Green, "status"));
        step("cluster settings", () -> c.cluster().getSettings());
        step("nodes info", () -> c.nodes().info());
        step("nodes stats", () -> c.nodes().stats());
        step("index stats", () -> check(c.indices().stats(s -> s.index("cars")).indices().get("cars").primaries().docs().count() == 1000, "st"));
        step("cat indices", () -> check(c.cat().indices().valueBody().size() >= 2, "ci"));
        step("cat health", () -> c.cat().health());
        step("cat count", () -> c.cat().count());
        step("cat nodes", () -> c.cat().nodes());
        step("cat aliases", () -> c.cat().aliases());
        step("cat shards", () -> c.cat().shards());
        step("cat allocation", () -> c.cat().allocation());
        step("resolve", () -> c.indices().resolveIndex(r -> r.name("c*")));
        step("missing index", () -> { try { c.search(s -> s.index("none"), Car.class); check(false, "found"); } catch (OpenSearchException e) { check(e.status() == 404 && e.error().type().equals("index_not_found_exception"), e.error().type()); } });
        step("putSettings", () -> check(c.indices().putSettings(s -> s.index("cars").settings(x -> x.refreshInterval(Time.of(t -> t.time("1s"))))).acknowledged(), "ps"));
        step("deleteIndex", () -> check(c.indices().delete(d -> d.index("cars", "copy", "copy2")).acknowledged(), "di"));
        transport.close();
    }
}
