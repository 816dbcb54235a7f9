package quire;

import java.nio.file.Path;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.NumericDocValuesField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.store.MMapDirectory;

/** Lucene: one segment, mapped into memory. A count of one term is answered from its statistics. */
final class Lucene implements Peer {
    private final MMapDirectory directory;
    private DirectoryReader reader;
    private IndexSearcher searcher;

    Lucene(Path path) throws Exception {
        directory = new MMapDirectory(path);
    }

    @Override
    public void load(Documents documents) throws Exception {
        String[] f = Documents.values(Documents.F_VALUES);
        String[] g = Documents.values(Documents.G_VALUES);
        try (IndexWriter writer = new IndexWriter(directory, new IndexWriterConfig())) {
            for (int id = 0; id < documents.count(); id++) {
                Document document = new Document();
                document.add(new NumericDocValuesField("id", id));
                document.add(new StringField("f", f[id % f.length], Field.Store.NO));
                document.add(new StringField("g", g[id % g.length], Field.Store.NO));
                writer.addDocument(document);
            }
            writer.forceMerge(1);
        }
        reader = DirectoryReader.open(directory);
        searcher = new IndexSearcher(reader);
        // A benchmark that asks the same few questions is not to measure a cache of answers.
        searcher.setQueryCache(null);
    }

    @Override
    public Object question(String f, String g) {
        if (g == null) {
            return term("f", f);
        }
        BooleanQuery.Builder both = new BooleanQuery.Builder();
        both.add(term("f", f), BooleanClause.Occur.FILTER);
        both.add(term("g", g), BooleanClause.Occur.FILTER);
        return both.build();
    }

    @Override
    public long count(Object question) throws Exception {
        return searcher.count((Query) question);
    }

    private static Query term(String field, String value) {
        return new TermQuery(new Term(field, value));
    }

    @Override
    public void close() throws Exception {
        reader.close();
        directory.close();
    }
}
