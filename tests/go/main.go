// opensearch-go, as its users write it, against a server on the port given: every step is checked.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"
	"github.com/opensearch-project/opensearch-go/v4/opensearchutil"
)

// step ends the program if a step failed.
func step(name string, err error) {
	if err != nil {
		fmt.Printf("%s: %v\n", name, err)
		os.Exit(1)
	}
}

func check(ok bool, what any) error {
	if !ok {
		return fmt.Errorf("unexpected: %v", what)
	}
	return nil
}

// isStatus tells whether the server answered with an error of this status.
func isStatus(err error, status int) bool {
	var failure *opensearch.StructError
	return errors.As(err, &failure) && failure.Status == status
}

func body(text string) *strings.Reader { return strings.NewReader(text) }

func main() {
	ctx := context.Background()
	client, err := opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{Addresses: []string{"http://127.0.0.1:" + os.Args[1]}}})
	if err != nil {
		panic(err)
	}
	info, err := client.Info(ctx, nil)
	step("info", errors.Join(err, check(info.Version.Distribution == "opensearch", info)))
	_, err = client.Ping(ctx, nil)
	step("ping", err)
	_, err = client.Indices.Create(ctx, opensearchapi.IndicesCreateReq{Index: "trucks", Body: body(`{"settings":{"index":{"number_of_shards":2}},"mappings":{"properties":{"n":{"type":"long"},"make":{"type":"keyword"},"at":{"type":"date"}}}}`)})
	step("create", err)
	_, err = client.Indices.Exists(ctx, opensearchapi.IndicesExistsReq{Indices: []string{"trucks"}})
	step("exists", err)
	absent, err := client.Indices.Exists(ctx, opensearchapi.IndicesExistsReq{Indices: []string{"boats"}})
	step("does not exist", check(err != nil && absent.StatusCode == 404, absent))
	got, err := client.Indices.Get(ctx, opensearchapi.IndicesGetReq{Indices: []string{"trucks"}})
	step("get index", errors.Join(err, check(len(got.Indices) == 1, got)))
	mapping, err := client.Indices.Mapping.Get(ctx, &opensearchapi.MappingGetReq{Indices: []string{"trucks"}})
	step("get mapping", errors.Join(err, check(len(mapping.Indices) == 1, mapping)))
	_, err = client.Indices.Settings.Get(ctx, &opensearchapi.SettingsGetReq{Indices: []string{"trucks"}})
	step("get settings", err)
	_, err = client.IndexTemplate.Create(ctx, opensearchapi.IndexTemplateCreateReq{IndexTemplate: "tg", Body: body(`{"index_patterns":["zz-*"],"template":{"mappings":{"properties":{"x":{"type":"keyword"}}}}}`)})
	step("template", err)
	templates, err := client.IndexTemplate.Get(ctx, &opensearchapi.IndexTemplateGetReq{IndexTemplates: []string{"tg"}})
	step("get template", errors.Join(err, check(len(templates.IndexTemplates) == 1, templates)))
	_, err = client.IndexTemplate.Delete(ctx, opensearchapi.IndexTemplateDeleteReq{IndexTemplate: "tg"})
	step("delete template", err)

	indexer, err := opensearchutil.NewBulkIndexer(opensearchutil.BulkIndexerConfig{Client: client, Index: "trucks", NumWorkers: 2, FlushBytes: 20000})
	step("bulk indexer", err)
	for n := range 1000 {
		make := "Saab"
		if n%2 == 1 {
			make = "VW"
		}
		doc := fmt.Sprintf(`{"n":%d,"make":"%s","price":%v,"at":"2024-%02d-%02d"}`, n, make, float64(n)*1.5, n%12+1, n%28+1)
		step2 := indexer.Add(ctx, opensearchutil.BulkIndexerItem{Action: "index", DocumentID: fmt.Sprint(n), Body: body(doc)})
		if step2 != nil {
			step("add", step2)
		}
	}
	err = indexer.Close(ctx)
	step("bulk", errors.Join(err, check(indexer.Stats().NumFlushed == 1000 && indexer.Stats().NumFailed == 0, indexer.Stats())))
	bulk, err := client.Bulk(ctx, opensearchapi.BulkReq{Index: "trucks", Body: body("{\"create\":{\"_id\":\"x\"}}\n{\"n\":1}\n{\"update\":{\"_id\":\"x\"}}\n{\"doc\":{\"make\":\"F\"}}\n{\"delete\":{\"_id\":\"x\"}}\n{\"delete\":{\"_id\":\"nix\"}}\n")})
	step("bulk mixed", errors.Join(err, check(len(bulk.Items) == 4 && bulk.Items[3]["delete"].Status == 404, bulk.Items)))
	indexed, err := client.Index(ctx, opensearchapi.IndexReq{Index: "trucks", DocumentID: "a", Body: body(`{"n":2000,"make":"Audi"}`), Params: opensearchapi.IndexParams{Refresh: "true"}})
	step("index", errors.Join(err, check(indexed.Result == "created", indexed)))
	created, err := client.Document.Create(ctx, opensearchapi.DocumentCreateReq{Index: "trucks", DocumentID: "made", Body: body(`{}`)})
	step("create document", errors.Join(err, check(created.Result == "created", created)))
	_, err = client.Document.Delete(ctx, opensearchapi.DocumentDeleteReq{Index: "trucks", DocumentID: "made"})
	step("delete created document", err)
	_, err = client.Document.Create(ctx, opensearchapi.DocumentCreateReq{Index: "trucks", DocumentID: "a", Body: body(`{}`)})
	step("conflict", check(isStatus(err, 409), err))
	place := opensearchapi.IndexParams{IfSeqNo: &indexed.SeqNo, IfPrimaryTerm: &indexed.PrimaryTerm}
	indexed, err = client.Index(ctx, opensearchapi.IndexReq{Index: "trucks", DocumentID: "a", Body: body(`{"n":2001}`), Params: place})
	step("if_seq_no", errors.Join(err, check(indexed.Result == "updated", indexed)))
	_, err = client.Index(ctx, opensearchapi.IndexReq{Index: "trucks", DocumentID: "a", Body: body(`{"n":2002}`), Params: place})
	step("conflict by if_seq_no", check(isStatus(err, 409), err))
	_, err = client.Document.Delete(ctx, opensearchapi.DocumentDeleteReq{Index: "trucks", DocumentID: "a", Params: opensearchapi.DocumentDeleteParams{IfSeqNo: place.IfSeqNo, IfPrimaryTerm: place.IfPrimaryTerm}})
	step("conflict of a delete", check(isStatus(err, 409), err))
	external := opensearchapi.IndexParams{Version: opensearchapi.ToPointer(5), VersionType: "external"}
	versioned, err := client.Index(ctx, opensearchapi.IndexReq{Index: "trucks", DocumentID: "v", Body: body(`{"n":1}`), Params: external})
	step("external version", errors.Join(err, check(versioned.Version == 5, versioned)))
	_, err = client.Index(ctx, opensearchapi.IndexReq{Index: "trucks", DocumentID: "v", Body: body(`{"n":2}`), Params: external})
	step("conflict of external versions", check(isStatus(err, 409), err))
	dropped, err := client.Document.Delete(ctx, opensearchapi.DocumentDeleteReq{Index: "trucks", DocumentID: "v", Params: opensearchapi.DocumentDeleteParams{Version: opensearchapi.ToPointer(6), VersionType: "external"}})
	step("delete by external version", errors.Join(err, check(dropped.Version == 6, dropped)))
	doc, err := client.Document.Get(ctx, opensearchapi.DocumentGetReq{Index: "trucks", DocumentID: "7"})
	step("get", errors.Join(err, check(doc.Found && strings.Contains(string(doc.Source), `"VW"`), doc)))
	_, err = client.Document.Exists(ctx, opensearchapi.DocumentExistsReq{Index: "trucks", DocumentID: "7"})
	step("document exists", err)
	source, err := client.Document.Source(ctx, opensearchapi.DocumentSourceReq{Index: "trucks", DocumentID: "7"})
	step("source", errors.Join(err, check(strings.Contains(string(source.Source), `"VW"`), string(source.Source))))
	mget, err := client.MGet(ctx, opensearchapi.MGetReq{Index: "trucks", Body: body(`{"ids":["1","none"]}`)})
	step("mget", errors.Join(err, check(mget.Docs[0].Found && !mget.Docs[1].Found, mget.Docs)))
	updated, err := client.Update(ctx, opensearchapi.UpdateReq{Index: "trucks", DocumentID: "a", Body: body(`{"doc":{"price":1.5}}`)})
	step("update", errors.Join(err, check(updated.Result == "updated", updated)))
	deleted, err := client.Document.Delete(ctx, opensearchapi.DocumentDeleteReq{Index: "trucks", DocumentID: "a"})
	step("delete", errors.Join(err, check(deleted.Result == "deleted", deleted)))
	_, err = client.Indices.Refresh(ctx, &opensearchapi.IndicesRefreshReq{Indices: []string{"trucks"}})
	step("refresh", err)
	_, err = client.Indices.Flush(ctx, &opensearchapi.IndicesFlushReq{Indices: []string{"trucks"}})
	step("flush", err)
	_, err = client.Indices.Forcemerge(ctx, &opensearchapi.IndicesForcemergeReq{Indices: []string{"trucks"}})
	step("forcemerge", err)
	count, err := client.Indices.Count(ctx, &opensearchapi.IndicesCountReq{Indices: []string{"trucks"}, Body: body(`{"query":{"term":{"make":"VW"}}}`)})
	step("count", errors.Join(err, check(count.Count == 500, count)))
	found, err := client.Search(ctx, &opensearchapi.SearchReq{Indices: []string{"trucks"}, Body: body(`{"query":{"range":{"n":{"gte":990}}},"sort":[{"n":"desc"}],"size":3,"aggs":{"makes":{"terms":{"field":"make"}}}}`)})
	step("search", errors.Join(err, check(found.Hits.Total.Value == 10 && found.Hits.Hits[0].ID == "999" && strings.Contains(string(found.Aggregations), "buckets"), found)))
	page, err := client.Search(ctx, &opensearchapi.SearchReq{Indices: []string{"trucks"}, Body: body(`{"size":300}`), Params: opensearchapi.SearchParams{Scroll: time.Minute}})
	step("scroll begins", err)
	seen, id := len(page.Hits.Hits), page.ScrollID
	for id != nil {
		next, err := client.Scroll.Get(ctx, opensearchapi.ScrollGetReq{ScrollID: *id, Params: opensearchapi.ScrollGetParams{Scroll: time.Minute}})
		if err != nil || len(next.Hits.Hits) == 0 {
			step("scroll", err)
			break
		}
		seen += len(next.Hits.Hits)
		id = next.ScrollID
	}
	step("scroll sees all", check(seen == 1000, seen))
	_, err = client.Scroll.Delete(ctx, opensearchapi.ScrollDeleteReq{ScrollIDs: []string{*id}})
	step("scroll ends", err)
	point, err := client.PointInTime.Create(ctx, opensearchapi.PointInTimeCreateReq{Indices: []string{"trucks"}, Params: opensearchapi.PointInTimeCreateParams{KeepAlive: time.Minute}})
	step("point", err)
	_, err = client.Index(ctx, opensearchapi.IndexReq{Index: "trucks", DocumentID: "later", Body: body(`{"n":-1}`)})
	step("index after the point", err)
	after := ""
	for seen = 0; ; {
		page, err := client.Search(ctx, &opensearchapi.SearchReq{Body: body(`{"pit":{"id":"` + point.PitID + `","keep_alive":"1m"},"size":300,"sort":["n"]` + after + `}`)})
		step("point search", err)
		for _, hit := range page.Hits.Hits {
			step("point search in order", check(hit.ID == fmt.Sprint(seen), hit))
			seen++
		}
		if len(page.Hits.Hits) == 0 {
			break
		}
		last, err := json.Marshal(page.Hits.Hits[len(page.Hits.Hits)-1].Sort)
		step("sort values", err)
		after = `,"search_after":` + string(last)
	}
	step("point sees all of its time", check(seen == 1000, seen))
	points, err := client.PointInTime.Get(ctx, nil)
	step("points", errors.Join(err, check(len(points.Pits) == 1 && points.Pits[0].PitID == point.PitID, points)))
	ended, err := client.PointInTime.Delete(ctx, opensearchapi.PointInTimeDeleteReq{PitID: []string{point.PitID}})
	step("point ends", errors.Join(err, check(len(ended.Pits) == 1 && ended.Pits[0].Successful, ended)))
	_, err = client.Document.Delete(ctx, opensearchapi.DocumentDeleteReq{Index: "trucks", DocumentID: "later"})
	step("delete after the point", err)
	many, err := client.MSearch(ctx, opensearchapi.MSearchReq{Indices: []string{"trucks"}, Body: body("{}\n{\"size\":1}\n{\"index\":\"none\"}\n{}\n")})
	step("msearch", errors.Join(err, check(len(many.Responses) == 2 && many.Responses[0].Hits.Total.Value == 1000, many)))
	copied, err := client.Reindex(ctx, opensearchapi.ReindexReq{Body: body(`{"source":{"index":"trucks"},"dest":{"index":"lorries"}}`)})
	step("reindex", errors.Join(err, check(copied.Created == 1000, copied)))
	task, err := client.Reindex(ctx, opensearchapi.ReindexReq{Body: body(`{"source":{"index":"trucks"},"dest":{"index":"lorries2"}}`), Params: opensearchapi.ReindexParams{WaitForCompletion: new(bool), Slices: 2}})
	step("reindex task", err)
	for {
		state, err := client.Tasks.Get(ctx, opensearchapi.TasksGetReq{TaskID: task.Task})
		step("task", err)
		if state.Completed {
			// The client has the response of a task only as text.
			var ended struct {
				Response struct {
					Created int
					Slices  []json.RawMessage
				}
			}
			err = json.NewDecoder(state.Inspect().Response.Body).Decode(&ended)
			step("task ends", errors.Join(err, check(ended.Response.Created == 1000 && len(ended.Response.Slices) == 2, ended)))
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	_, err = client.Tasks.List(ctx, nil)
	step("tasks", err)
	changed, err := client.UpdateByQuery(ctx, opensearchapi.UpdateByQueryReq{Indices: []string{"lorries"}, Body: body(`{"query":{"term":{"make":"VW"}}}`)})
	step("update by query", errors.Join(err, check(changed.Updated == 500, changed)))
	removed, err := client.Document.DeleteByQuery(ctx, opensearchapi.DocumentDeleteByQueryReq{Indices: []string{"lorries"}, Body: body(`{"query":{"term":{"make":"VW"}}}`)})
	step("delete by query", errors.Join(err, check(removed.Deleted == 500, removed)))
	_, err = client.Aliases(ctx, opensearchapi.AliasesReq{Body: body(`{"actions":[{"add":{"index":"trucks","alias":"tg"}}]}`)})
	step("aliases", err)
	alias, err := client.Indices.Alias.Get(ctx, opensearchapi.AliasGetReq{Indices: []string{"trucks"}, Alias: []string{"tg"}})
	step("alias", errors.Join(err, check(len(alias.Indices) == 1 && len(alias.Indices["trucks"].Aliases) == 1, alias)))
	caps, err := client.Indices.FieldCaps(ctx, opensearchapi.IndicesFieldCapsReq{Indices: []string{"trucks"}, Params: opensearchapi.IndicesFieldCapsParams{Fields: []string{"*"}}})
	step("field caps", errors.Join(err, check(caps.Fields["n"]["long"].Type == "long", caps)))
	_, err = client.Indices.Analyze(ctx, opensearchapi.IndicesAnalyzeReq{Body: opensearchapi.IndicesAnalyzeBody{Analyzer: "standard", Text: []string{"Hello World"}}})
	step("analyze", err)
	stats, err := client.Indices.Stats(ctx, &opensearchapi.IndicesStatsReq{Indices: []string{"trucks"}})
	step("index stats", errors.Join(err, check(stats.All.Primaries.Docs.Count == 1000, stats)))
	_, err = client.Indices.Resolve(ctx, opensearchapi.IndicesResolveReq{Indices: []string{"t*"}})
	step("resolve", err)
	health, err := client.Cluster.Health(ctx, nil)
	step("health", errors.Join(err, check(health.Status == "green", health)))
	_, err = client.Cluster.Stats(ctx, nil)
	step("cluster stats", err)
	_, err = client.Cluster.GetSettings(ctx, nil)
	step("cluster settings", err)
	_, err = client.Nodes.Info(ctx, nil)
	step("nodes info", err)
	nodes, err := client.Nodes.Stats(ctx, nil)
	step("nodes stats", errors.Join(err, check(nodes.NodesInfo.Successful == 1 && len(nodes.Nodes) == 1, nodes)))
	cat, err := client.Cat.Indices(ctx, nil)
	step("cat indices", errors.Join(err, check(len(cat.Indices) >= 2, cat)))
	_, err = client.Cat.Health(ctx, nil)
	step("cat health", err)
	_, err = client.Cat.Count(ctx, nil)
	step("cat count", err)
	_, err = client.Cat.Nodes(ctx, nil)
	step("cat nodes", err)
	_, err = client.Cat.Shards(ctx, nil)
	step("cat shards", err)
	_, err = client.Cat.Aliases(ctx, nil)
	step("cat aliases", err)
	_, err = client.Cat.Segments(ctx, nil)
	step("cat segments", err)
	_, err = client.Search(ctx, &opensearchapi.SearchReq{Indices: []string{"none"}})
	var failure *opensearch.StructError
	step("missing", check(errors.As(err, &failure) && failure.Status == 404 && failure.Err.Type == "index_not_found_exception", err))
	_, err = client.Indices.Delete(ctx, opensearchapi.IndicesDeleteReq{Indices: []string{"trucks", "lorries", "lorries2"}})
	step("delete indices", err)
}
