package quire;

import java.io.BufferedReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.SearcherFactory;
import org.apache.lucene.search.SearcherManager;
import org.apache.lucene.store.MMapDirectory;

/**
 * Adverts in Lucene that change while they are queried: {@code Live FLAT UPDATES QUESTIONS DIRECTORY RATE REFRESH SECONDS}.
 * The reader is made anew every REFRESH milliseconds, or for each question if that is 0.
 */
public final class Live {
    private static final String[] KINDS = {
        "count a region", "newest of a mark and price", "newest of a mark and price in a region", "count marks, not a colour, years",
    };

    /** Updates between two looks at the clock. */
    private static final int UPDATES = 10;

    private final Report report = new Report();
    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private final double seconds;
    private final long refreshMillis;
    private SearcherManager manager;

    private Live(double seconds, long refreshMillis) {
        this.seconds = seconds;
        this.refreshMillis = refreshMillis;
    }

    public static void main(String[] arguments) throws Exception {
        Live live = new Live(Double.parseDouble(arguments[6]), Long.parseLong(arguments[5]));
        live.run(arguments, Long.parseLong(arguments[4]));
        live.report.print();
    }

    private void run(String[] arguments, long rate) throws Exception {
        Path directory = Path.of(arguments[3]).resolve("lucene");
        IndexWriterConfig config = new IndexWriterConfig();
        config.setRAMBufferSizeMB(256);
        try (MMapDirectory files = new MMapDirectory(directory); IndexWriter writer = new IndexWriter(files, config)) {
            Flat head;
            try (BufferedReader lines = Flat.open(arguments[0])) {
                head = Flat.readHead(lines);
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    writer.addDocument(head.parse(line).document());
                }
            }
            writer.commit();
            report.add("loaded", "CPU s", Machine.processCpuSeconds());
            report.add("all on disk", "MB", Machine.bytesBelow(directory) / 1e6);
            manager = new SearcherManager(writer, new SearcherFactory() {
                @Override
                public IndexSearcher newSearcher(org.apache.lucene.index.IndexReader reader, org.apache.lucene.index.IndexReader old) {
                    IndexSearcher searcher = new IndexSearcher(reader);
                    searcher.setQueryCache(null);
                    return searcher;
                }
            });
            List<List<Cars.Question>> kinds = new ArrayList<>();
            for (String line : Files.readAllLines(Path.of(arguments[2]))) {
                Cars.Question question = Cars.Question.parse(line);
                while (kinds.size() <= question.kind()) {
                    kinds.add(new ArrayList<>());
                }
                kinds.get(question.kind()).add(question);
            }
            for (int kind = 0; kind < KINDS.length; kind++) {
                report.answer(KINDS[kind] + ", before", answers(kinds.get(kind)));
                timed(kinds.get(kind), null, null);
                timed(kinds.get(kind), KINDS[kind], null);
            }
            List<String> updates = Files.readAllLines(Path.of(arguments[1]));
            int share = updates.size() / KINDS.length;
            for (int kind = 0; kind < KINDS.length; kind++) {
                beside(writer, head, updates.subList(kind * share, (kind + 1) * share), rate, kinds.get(kind), KINDS[kind]);
            }
            manager.maybeRefreshBlocking();
            for (int kind = 0; kind < KINDS.length; kind++) {
                report.answer(KINDS[kind] + ", after", answers(kinds.get(kind)));
            }
            manager.close();
        }
    }

    /** Asks questions while others write. */
    private void beside(IndexWriter writer, Flat head, List<String> updates, long rate, List<Cars.Question> questions, String name)
            throws Exception {
        AtomicBoolean isDone = new AtomicBoolean();
        Exception[] failed = new Exception[1];
        Thread writing = new Thread(() -> {
            try {
                long begun = System.nanoTime();
                for (int i = 0; i < updates.size(); i++) {
                    Flat.Keyed update = head.parse(updates.get(i));
                    writer.updateDocument(update.term(), update.document());
                    if (i % UPDATES == 0) {
                        long early = begun + i * 1_000_000_000L / rate - System.nanoTime();
                        if (early > 0) {
                            Thread.sleep(early / 1_000_000, (int) (early % 1_000_000));
                        }
                    }
                }
            } catch (Exception error) {
                failed[0] = error;
            }
            isDone.set(true);
        });
        Thread refreshing = new Thread(() -> {
            try {
                while (refreshMillis > 0 && !isDone.get()) {
                    manager.maybeRefreshBlocking();
                    Thread.sleep(refreshMillis);
                }
            } catch (Exception error) {
                failed[0] = error;
            }
        });
        writing.start();
        refreshing.start();
        timed(questions, name + ", beside updates", isDone);
        writing.join();
        refreshing.join();
        if (failed[0] != null) {
            throw failed[0];
        }
    }

    private long[] answers(List<Cars.Question> questions) throws Exception {
        long[] answers = new long[questions.size()];
        for (int i = 0; i < answers.length; i++) {
            answers[i] = execute(questions.get(i));
        }
        return answers;
    }

    private long execute(Cars.Question question) throws Exception {
        if (refreshMillis == 0) {
            manager.maybeRefreshBlocking();
        }
        IndexSearcher searcher = manager.acquire();
        try {
            return Cars.answer(searcher, question, "region-" + question.region());
        } finally {
            manager.release(searcher);
        }
    }

    /** Asks one question after another for some time, or until others are done. */
    private void timed(List<Cars.Question> questions, String name, AtomicBoolean isDone) throws Exception {
        int count = 0;
        double[] micros = new double[1 << 16];
        long cpu = isDone == null ? (long) (Machine.processCpuSeconds() * 1e9) : threads.getCurrentThreadCpuTime();
        long end = System.nanoTime() + (long) (seconds * 1e9);
        while (isDone == null ? System.nanoTime() < end : !isDone.get()) {
            long before = System.nanoTime();
            execute(questions.get(count % questions.size()));
            if (count == micros.length) {
                micros = Arrays.copyOf(micros, count * 2);
            }
            micros[count++] = (System.nanoTime() - before) / 1e3;
        }
        cpu = (isDone == null ? (long) (Machine.processCpuSeconds() * 1e9) : threads.getCurrentThreadCpuTime()) - cpu;
        if (name != null) {
            Arrays.sort(micros, 0, count);
            report.add(name, "CPU µs", cpu / 1e3 / count);
            report.add(name + ", p50", "µs", micros[count / 2]);
            report.add(name + ", p99", "µs", micros[Math.min(count - 1, (int) (count * 0.99))]);
        }
    }
}
