package quire;

import java.io.BufferedReader;
import java.nio.file.Path;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.store.MMapDirectory;

/** Loads a flat file into Lucene: {@code Ingest FLAT DIRECTORY}. */
public final class Ingest {
    private Ingest() {}

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[1]).resolve("lucene");
        // The first documents are for the compiler.
        load(arguments[0], Path.of(arguments[1]).resolve("warm"), 30_000);
        Report report = new Report();
        double cpu = Machine.processCpuSeconds();
        long begun = System.nanoTime();
        long count = load(arguments[0], directory, Long.MAX_VALUE);
        report.rate(count, (System.nanoTime() - begun) / 1e9, Machine.processCpuSeconds() - cpu);
        report.add("index", "MB", Machine.bytesBelow(directory) / 1e6);
        try (MMapDirectory files = new MMapDirectory(directory); DirectoryReader reader = DirectoryReader.open(files)) {
            report.answer("documents", new long[] {reader.numDocs()});
        }
        report.print();
    }

    private static long load(String flat, Path directory, long most) throws Exception {
        IndexWriterConfig config = new IndexWriterConfig();
        config.setRAMBufferSizeMB(256);
        long count = 0;
        try (MMapDirectory files = new MMapDirectory(directory); IndexWriter writer = new IndexWriter(files, config);
                BufferedReader lines = Flat.open(flat)) {
            Flat head = Flat.readHead(lines);
            for (String line = lines.readLine(); line != null && count < most; line = lines.readLine()) {
                writer.addDocument(head.parse(line).document());
                count++;
            }
            writer.commit();
        }
        return count;
    }
}
