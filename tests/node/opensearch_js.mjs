// @opensearch-project/opensearch, as its users write it, against a server on the port given: every step is checked.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

// The packages are not beside this script.
const require = createRequire(`${process.argv[3]}/`);
const { Client } = require("@opensearch-project/opensearch");
const client = new Client({ node: `http://127.0.0.1:${process.argv[2]}` });

const info = await client.info();
assert.equal(info.body.version.distribution, "opensearch");

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
assert.equal((await client.cat.indices({ format: "json" })).body[0].index, "cars");
assert.equal((await client.indices.delete({ index: "cars" })).body.acknowledged, true);
