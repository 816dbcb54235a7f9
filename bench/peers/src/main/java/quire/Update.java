package quire;

import java.io.BufferedReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.lucene.document.LongField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.store.MMapDirectory;

/** Documents that are deleted and added anew in Lucene: {@code Update FLAT UPDATES DIRECTORY}. */
public final class Update {
    private Update() {}

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[2]).resolve("lucene");
        Report report = new Report();
        IndexWriterConfig config = new IndexWriterConfig();
        config.setRAMBufferSizeMB(256);
        try (MMapDirectory files = new MMapDirectory(directory)) {
            try (IndexWriter writer = new IndexWriter(files, config)) {
                Flat head;
                double cpu = Machine.processCpuSeconds();
                long count = 0;
                try (BufferedReader lines = Flat.open(arguments[0])) {
                    head = Flat.readHead(lines);
                    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                        writer.addDocument(head.parse(line).document());
                        count++;
                    }
                }
                writer.commit();
                report.add("loaded", "CPU µs", (Machine.processCpuSeconds() - cpu) * 1e6 / count);
                List<String> updates = Files.readAllLines(Path.of(arguments[1]));
                cpu = Machine.processCpuSeconds();
                long begun = System.nanoTime();
                for (String line : updates) {
                    Flat.Keyed update = head.parse(line);
                    writer.updateDocument(update.term(), update.document());
                }
                writer.commit();
                double wall = (System.nanoTime() - begun) / 1e9;
                cpu = Machine.processCpuSeconds() - cpu;
                report.add("CPU an update", "CPU µs", cpu * 1e6 / updates.size());
                report.add("updates by CPU", "updates/s", updates.size() / cpu);
                report.add("updates by the clock", "updates/s", updates.size() / wall);
            }
            report.add("all on disk", "MB", Machine.bytesBelow(directory) / 1e6);
            try (DirectoryReader reader = DirectoryReader.open(files)) {
                IndexSearcher searcher = new IndexSearcher(reader);
                long changed = searcher.count(LongField.newRangeQuery("f0", 1, Long.MAX_VALUE));
                report.answer("changed documents", new long[] {changed});
            }
        }
        report.print();
    }
}
