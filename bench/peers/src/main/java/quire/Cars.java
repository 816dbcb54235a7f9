package quire;

import java.io.BufferedReader;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.LongField;
import org.apache.lucene.document.NumericDocValuesField;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.Sort;
import org.apache.lucene.search.TermInSetQuery;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.store.MMapDirectory;
import org.apache.lucene.util.BytesRef;

/**
 * Car adverts in Lucene: {@code Cars ADVERTS QUESTIONS DIRECTORY ROUNDS FIELD...}, both files as the benchmark wrote them, a
 * field as {@code NAME:number}, {@code NAME:text}. Prints a line of JSON for each kind of question.
 */
public final class Cars {
    record Question(int kind, String region, String[] marks, long low, long high, String colour, long from, long to) {
        static Question parse(String line) {
            String[] parts = line.split("\t");
            return new Question(Integer.parseInt(parts[0]), parts[1], parts[2].split(","), Long.parseLong(parts[3]),
                Long.parseLong(parts[4]), parts[5], Long.parseLong(parts[6]), Long.parseLong(parts[7]));
        }
    }

    /** What one thread measured. */
    private record Asked(double[] micros, double cpuMicros, long[] answers) {}

    /** How many threads ask at once. */
    private static final int[] THREADS = {1, 2};

    /** Questions of this kind are made each time that they are asked; all others are ready before. */
    private static final int MADE_ANEW = 4;

    /** The questions of a cold run. */
    private static final int COLD_QUESTIONS = 20;

    private static final VarHandle WORDS = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private final IndexSearcher searcher;

    private Cars(IndexSearcher searcher) {
        this.searcher = searcher;
    }

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[2]);
        int rounds = Integer.parseInt(arguments[3]);
        String[] fields = Arrays.copyOfRange(arguments, 4, arguments.length);
        List<List<Question>> kinds = questions(Path.of(arguments[1]));
        double cpuBefore = Machine.processCpuSeconds();
        try (MMapDirectory files = new MMapDirectory(directory)) {
            build(files, Path.of(arguments[0]), fields);
            double buildSeconds = Machine.processCpuSeconds() - cpuBefore;
            try (DirectoryReader reader = DirectoryReader.open(files)) {
                IndexSearcher searcher = new IndexSearcher(reader);
                searcher.setQueryCache(null);
                new Cars(searcher).ask(kinds, rounds, buildSeconds, Machine.bytesBelow(directory));
            }
        }
        // The compiler is done, and nothing maps the files.
        for (int kind = 0; kind < kinds.size(); kind++) {
            double[] millis = cold(directory, kinds.get(kind));
            System.out.printf("{\"kind\":%d,\"cold_first_millis\":%.3f,\"cold_millis\":%.3f}%n", kind, millis[0], millis[1]);
        }
    }

    private static List<List<Question>> questions(Path file) throws Exception {
        List<List<Question>> kinds = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            Question question = Question.parse(line);
            while (kinds.size() <= question.kind()) {
                kinds.add(new ArrayList<>());
            }
            kinds.get(question.kind()).add(question);
        }
        return kinds;
    }

    /** Milliseconds of a cold run, with no page of the files in the system's cache: opening and the first answer, then each of the next. */
    private static double[] cold(Path directory, List<Question> questions) throws Exception {
        Machine.evict(directory);
        long begun = System.nanoTime();
        try (MMapDirectory files = new MMapDirectory(directory); DirectoryReader reader = DirectoryReader.open(files)) {
            IndexSearcher searcher = new IndexSearcher(reader);
            searcher.setQueryCache(null);
            Cars cars = new Cars(searcher);
            double first = 0;
            int asked = Math.min(COLD_QUESTIONS, questions.size());
            for (int i = 0; i < asked; i++) {
                cars.answer(questions.get(i), made(questions.get(i)));
                first = i == 0 ? (System.nanoTime() - begun) / 1e6 : first;
            }
            return new double[] {first, ((System.nanoTime() - begun) / 1e6 - first) / (asked - 1)};
        }
    }

    private static void build(MMapDirectory files, Path adverts, String[] fields) throws Exception {
        IndexWriterConfig config = new IndexWriterConfig();
        config.setRAMBufferSizeMB(256);
        try (IndexWriter writer = new IndexWriter(files, config); BufferedReader lines = Files.newBufferedReader(adverts)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] values = line.split("\t");
                Document document = new Document();
                for (int i = 0; i < fields.length; i++) {
                    String name = fields[i].substring(0, fields[i].indexOf(':'));
                    if (name.equals("region")) {
                        document.add(new StringField(name, values[i], Field.Store.NO));
                    } else if (name.equals("id")) {
                        document.add(new NumericDocValuesField(name, Long.parseLong(values[i])));
                    } else if (fields[i].endsWith(":number")) {
                        document.add(new LongField(name, Long.parseLong(values[i]), Field.Store.NO));
                    } else {
                        document.add(new StringField(name, values[i], Field.Store.NO));
                    }
                }
                document.add(new StoredField("payload", values[fields.length].getBytes(StandardCharsets.UTF_8)));
                writer.addDocument(document);
            }
            writer.forceMerge(1);
        }
    }

    private void ask(List<List<Question>> kinds, int rounds, double buildSeconds, long bytes) throws Exception {
        for (int kind = 0; kind < kinds.size(); kind++) {
            // The rounds before the last are for the compiler; a short question needs more of them.
            int all = kind == 0 || kind == MADE_ANEW ? rounds * 100 : rounds;
            for (int threads : THREADS) {
                List<Asked> asked = ask(kinds.get(kind), all, threads);
                double[] micros = asked.stream().flatMapToDouble(one -> Arrays.stream(one.micros())).sorted().toArray();
                double cpuMicros = asked.stream().mapToDouble(Asked::cpuMicros).sum() / micros.length;
                System.out.printf(
                    "{\"engine\":\"lucene\",\"kind\":%d,\"threads\":%d,\"cpu_micros\":%.3f,\"p50_micros\":%.3f,\"p95_micros\":%.3f,"
                        + "\"p99_micros\":%.3f,\"build_cpu_seconds\":%.2f,\"disk_bytes\":%d,\"answers\":%s}%n",
                    kind, threads, cpuMicros, at(micros, 0.5), at(micros, 0.95), at(micros, 0.99), buildSeconds, bytes,
                    Arrays.toString(asked.get(0).answers()));
            }
        }
    }

    /**
     * Asks all questions by so many threads, several times over. All begin the last time but one together, and the last
     * time counts: a thread that waited for the others goes on with cold caches.
     */
    private List<Asked> ask(List<Question> questions, int rounds, int threads) throws Exception {
        CyclicBarrier together = new CyclicBarrier(threads);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            Callable<Asked> task = () -> ask(questions, rounds, together);
            List<Asked> asked = new ArrayList<>();
            for (Future<Asked> one : pool.invokeAll(Collections.nCopies(threads, task))) {
                asked.add(one.get());
            }
            return asked;
        } finally {
            pool.shutdown();
        }
    }

    private Asked ask(List<Question> questions, int rounds, CyclicBarrier together) throws Exception {
        long[] answers = new long[questions.size()];
        double[] micros = new double[questions.size()];
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        double cpuMicros = 0;
        Query[] ready = questions.stream().map(Cars::made).toArray(Query[]::new);
        for (int round = 1; round <= rounds; round++) {
            if (round == Math.max(rounds - 1, 1)) {
                together.await();
            }
            long cpuBefore = threads.getCurrentThreadCpuTime();
            for (int i = 0; i < answers.length; i++) {
                long before = System.nanoTime();
                Question question = questions.get(i);
                answers[i] = answer(question, question.kind() == MADE_ANEW ? made(question) : ready[i]);
                micros[i] = (System.nanoTime() - before) / 1e3;
            }
            cpuMicros = (threads.getCurrentThreadCpuTime() - cpuBefore) / 1e3;
        }
        return new Asked(micros, cpuMicros, answers);
    }

    private static double at(double[] sorted, double part) {
        return sorted[Math.min(sorted.length - 1, (int) (sorted.length * part))];
    }

    /** A count, or a number that stands for the hits, their order and their payloads. */
    private long answer(Question question, Query query) throws Exception {
        return question.kind() == 1 || question.kind() == 2 ? newest(searcher, query, "payload") : searcher.count(query);
    }

    /** The answer to a question, made anew, about a region as the documents have it; the text of an advert is stored as `text`. */
    static long answer(IndexSearcher searcher, Question question, String region) throws Exception {
        Query query = made(question, region);
        return question.kind() == 1 || question.kind() == 2 ? newest(searcher, query, "text") : searcher.count(query);
    }

    private static Query made(Question question) {
        return made(question, question.region());
    }

    private static Query made(Question question, String region) {
        switch (question.kind()) {
            case 0:
            case MADE_ANEW:
                return term("region", region);
            case 1:
            case 2: {
                BooleanQuery.Builder all = new BooleanQuery.Builder();
                all.add(term("mark", question.marks()[0]), BooleanClause.Occur.FILTER);
                all.add(LongField.newRangeQuery("price", question.low(), question.high()), BooleanClause.Occur.FILTER);
                if (question.kind() == 2) {
                    all.add(term("region", region), BooleanClause.Occur.FILTER);
                }
                return all.build();
            }
            default: {
                List<BytesRef> marks = new ArrayList<>();
                for (String mark : question.marks()) {
                    marks.add(new BytesRef(mark));
                }
                BooleanQuery.Builder all = new BooleanQuery.Builder();
                all.add(new TermInSetQuery("mark", marks), BooleanClause.Occur.FILTER);
                all.add(term("colour", question.colour()), BooleanClause.Occur.MUST_NOT);
                all.add(LongField.newRangeQuery("year", question.from(), question.to()), BooleanClause.Occur.FILTER);
                return all.build();
            }
        }
    }

    private static long newest(IndexSearcher searcher, Query query, String payloadField) throws Exception {
        long number = 0;
        Sort newest = new Sort(LongField.newSortField("added", true, org.apache.lucene.search.SortedNumericSelector.Type.MAX));
        for (ScoreDoc hit : searcher.search(query, 10, newest).scoreDocs) {
            BytesRef payload = searcher.storedFields().document(hit.doc).getBinaryValue(payloadField);
            number = (number * 1_000_003 + hashOf(payload)) & 0xffff_ffff_ffffL;
        }
        return number;
    }

    /** A number of 32 bits that stands for some bytes, as the benchmark makes it of Quire's. */
    private static long hashOf(BytesRef payload) {
        long hash = 0;
        int end = payload.offset + payload.length;
        int rest = end - payload.length % Long.BYTES;
        for (int i = payload.offset; i < rest; i += Long.BYTES) {
            hash = (hash ^ (long) WORDS.get(payload.bytes, i)) * 0x9e37_79b9_7f4a_7c15L;
        }
        for (int i = rest; i < end; i++) {
            hash = (hash ^ (payload.bytes[i] & 0xff)) * 0x9e37_79b9_7f4a_7c15L;
        }
        return hash >>> 32;
    }

    private static Query term(String field, String value) {
        return new TermQuery(new Term(field, value));
    }
}
