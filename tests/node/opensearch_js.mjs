// @opensearch-project/opensearch, as its users write it, against a server on the port given: every step is checked.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

// The packages are not beside this script.
const require = createRequire(`${process.argv[3]}/`);
const { Client } = require("@opensearch-project/opensearch");
const client = new Client({ node: `http://127.0.0.1:${process.argv[2]}` });

const info = await client.info();
assert.equal(info.body.version.distribution, "opensearch");
assert.equal((await client.ping()).body, true);

// A template, and a collection that it applies to.
const template = { index_patterns: ["cars*"], template: { mappings: { properties: { n: { type: "long" } } } } };
assert.equal((await client.indices.putIndexTemplate({ name: "cars", body: template })).body.acknowledged, true);
assert.equal((await client.indices.create({ index: "cars" })).body.index, "cars");
assert.equal((await client.indices.exists({ index: "cars" })).body, true);
assert.equal((await client.indices.exists({ index: "boats" })).body, false);
const mapping = await client.indices.getMapping({ index: "cars" });
assert.deepEqual(mapping.body.cars.mappings, { properties: { n: { type: "long" } } });

// Many documents.
const cars = Array.from({ length: 1000 }, (_, n) => ({ n, make: n % 2 ? "VW" : "Saab" }));
const done = await client.helpers.bulk({ datasource: cars, onDocument: (car) => ({ index: { _index: "cars", _id: String(car.n) } }) });
assert.deepEqual([done.successful, done.failed], [1000, 0]);
const dropped = [];
await client.helpers.bulk({ datasource: [{ n: "many" }], onDocument: () => ({ index: { _index: "cars" } }), onDrop: (it) => dropped.push(it.status) });
assert.deepEqual(dropped, [400]);

// Searches, pages and aggregates.
const body = { query: { bool: { filter: [{ term: { make: "VW" } }, { range: { n: { gte: "990" } } }] } }, sort: ["n"], aggs: { makes: { terms: { field: "make" } } } };
const found = (await client.search({ index: "cars", body })).body;
assert.deepEqual(found.hits.hits.map((hit) => hit._id), ["991", "993", "995", "997", "999"]);
assert.deepEqual(found.aggregations.makes.buckets, [{ key: "VW", doc_count: 5 }]);
let pages = 0, hits = 0;
for await (const page of client.helpers.scrollSearch({ index: "cars", body: { size: 300 } })) {
  pages += 1;
  hits += page.documents.length;
}
assert.ok(pages >= 4 && hits === 1000, `${pages} pages, ${hits} hits`);
assert.equal((await client.count({ index: "cars" })).body.count, 1000);
const caps = await client.fieldCaps({ index: "cars", fields: "*" });
assert.equal(caps.body.fields.n.long.type, "long");

// Single documents.
assert.equal((await client.get({ index: "cars", id: "7" })).body._source.make, "VW");
await assert.rejects(client.get({ index: "cars", id: "none" }), (error) => error.statusCode === 404);
assert.equal((await client.delete({ index: "cars", id: "7" })).body.result, "deleted");
assert.equal((await client.index({ index: "cars", id: "new", body: { n: 5000 } })).body.result, "created");
const changed = await client.update({ index: "cars", id: "new", body: { doc: { make: "Lada" } } });
assert.equal(changed.body.result, "updated");
const place = { if_seq_no: changed.body._seq_no, if_primary_term: changed.body._primary_term };
assert.equal((await client.index({ index: "cars", id: "new", body: { n: 5001 }, ...place })).body.result, "updated");
await assert.rejects(client.index({ index: "cars", id: "new", body: { n: 0 }, ...place }), (error) => error.statusCode === 409);
await assert.rejects(client.create({ index: "cars", id: "new", body: {} }), (error) => error.statusCode === 409);
assert.equal((await client.create({ index: "cars", id: "newer", body: { n: 1 } })).body.result, "created");
const external = { index: "cars", id: "old", body: { n: 1 }, version: 9, version_type: "external" };
assert.equal((await client.index(external)).body._version, 9);
await assert.rejects(client.index(external), (error) => error.statusCode === 409);
assert.equal((await client.exists({ index: "cars", id: "new" })).body, true);
assert.deepEqual((await client.getSource({ index: "cars", id: "new" })).body, { n: 5001 });
const several = await client.mget({ index: "cars", body: { ids: ["new", "none"] } });
assert.deepEqual(several.body.docs.map((one) => one.found), [true, false]);

// Searches together, and a point in time page by page.
const both = await client.msearch({ body: [{ index: "cars" }, { size: 0 }, { index: "cars" }, { query: { term: { n: 5001 } } }] });
assert.deepEqual(both.body.responses.map((one) => one.hits.total.value), [1002, 1]);
const point = (await client.createPit({ index: "cars", keep_alive: "1m" })).body.pit_id;
await client.delete({ index: "cars", id: "newer" });
const seen = [];
for (let after; ; ) {
  const page = { size: 400, pit: { id: point, keep_alive: "1m" }, sort: [{ _id: "asc" }], ...(after && { search_after: after }) };
  const hits = (await client.search({ body: page })).body.hits.hits;
  if (hits.length === 0) break;
  seen.push(...hits.map((hit) => hit._id));
  after = hits.at(-1).sort;
}
assert.ok(seen.length === 1002 && seen.includes("newer"), String(seen.length));
await client.deletePit({ body: { pit_id: [point] } });

// Copies and changes by query, as tasks and by an alias.
const copied = await client.reindex({ wait_for_completion: false, slices: 2, body: { source: { index: "cars" }, dest: { index: "copy" } } });
let task;
do {
  task = (await client.tasks.get({ task_id: copied.body.task })).body;
} while (!task.completed);
assert.deepEqual([task.response.created, task.response.slices.length], [1001, 2]);
await client.indices.putAlias({ index: "copy", name: "vehicles" });
assert.deepEqual(Object.keys((await client.indices.getAlias({ name: "vehicles" })).body), ["copy"]);
assert.equal((await client.updateByQuery({ index: "vehicles", body: { query: { term: { make: "VW" } } } })).body.updated, 499);
assert.equal((await client.deleteByQuery({ index: "vehicles", body: { query: { term: { make: "VW" } } } })).body.deleted, 499);
assert.equal((await client.indices.stats({ index: "copy" })).body._all.primaries.docs.count, 502);
assert.equal((await client.nodes.stats()).body._nodes.successful, 1);
assert.equal((await client.indices.delete({ index: "copy" })).body.acknowledged, true);
assert.equal((await client.cat.indices({ format: "json" })).body[0].index, "cars");
assert.equal((await client.indices.delete({ index: "cars" })).body.acknowledged, true);
