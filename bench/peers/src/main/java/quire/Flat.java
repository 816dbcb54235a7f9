package quire;

import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.DoubleField;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.KeywordField;
import org.apache.lucene.document.LongField;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.Term;

/** Flat files of documents, as bench/src/converged/documents.rs writes them. */
final class Flat {
    /** A document and its key. */
    record Keyed(String key, Document document) {
        Term term() {
            return new Term("_id", key);
        }
    }

    private final String[] names;

    private Flat(String[] names) {
        this.names = names;
    }

    /** Reads the first line of a file. */
    static Flat readHead(BufferedReader lines) throws Exception {
        String[] names = lines.readLine().split("\t");
        for (int i = 0; i < names.length; i++) {
            names[i] = names[i].substring(0, names[i].lastIndexOf(':'));
        }
        return new Flat(names);
    }

    static BufferedReader open(String path) throws Exception {
        return Files.newBufferedReader(Path.of(path));
    }

    /** Every string as a keyword with doc values, every number as points and doc values; nothing stored but payloads. */
    Keyed parse(String line) {
        Document document = new Document();
        int end = line.indexOf('\t');
        String key = end < 0 ? line : line.substring(0, end);
        document.add(new StringField("_id", key, Field.Store.NO));
        while (end >= 0) {
            int begin = end + 1;
            end = line.indexOf('\t', begin);
            int number = 0;
            int at = begin;
            while (Character.isDigit(line.charAt(at))) {
                number = number * 10 + line.charAt(at++) - '0';
            }
            String text = end < 0 ? line.substring(at + 1) : line.substring(at + 1, end);
            String name = names[number];
            switch (line.charAt(at)) {
                case 'i' -> document.add(new LongField(name, Long.parseLong(text), Field.Store.NO));
                case 'f' -> document.add(new DoubleField(name, Double.parseDouble(text), Field.Store.NO));
                case 'h' -> document.add(new StringField(name + ", hashed", text, Field.Store.NO));
                case 'p' -> document.add(new StoredField(name, text.getBytes(StandardCharsets.UTF_8)));
                default -> document.add(new KeywordField(name, text, Field.Store.NO));
            }
        }
        return new Keyed(key, document);
    }
}
