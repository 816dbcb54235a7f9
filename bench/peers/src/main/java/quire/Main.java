package quire;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Measures one peer: {@code Main ENGINE DOCUMENTS DIRECTORY SECONDS}. Prints a line of JSON for each kind of query, with
 * every answer it gave, so that they can be compared.
 */
public final class Main {
    private static final int QUERIES_MAX = 5_000_000;

    private interface Asked {
        long count(int number) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        String engine = arguments[0];
        Documents documents = new Documents(Integer.parseInt(arguments[1]));
        Path directory = Path.of(arguments[2]);
        double seconds = Double.parseDouble(arguments[3]);
        Files.createDirectories(directory);
        String[] f = Documents.values(Documents.F_VALUES);
        String[] g = Documents.values(Documents.G_VALUES);
        try (Peer peer = engine.equals("lucene") ? new Lucene(directory) : new H2(directory)) {
            double cpuBefore = Machine.processCpuSeconds();
            peer.load(documents);
            double buildSeconds = Machine.processCpuSeconds() - cpuBefore;
            long bytes = Machine.bytesBelow(directory);
            Object[] one = new Object[f.length];
            for (int n = 0; n < one.length; n++) {
                one[n] = peer.question(f[n], null);
            }
            Object[] two = new Object[f.length * g.length];
            for (int n = 0; n < two.length; n++) {
                two[n] = peer.question(f[n % f.length], g[n % g.length]);
            }
            measure(engine, "one field", seconds, buildSeconds, bytes, one.length, n -> peer.count(one[n]));
            measure(engine, "one field, made anew", seconds, buildSeconds, bytes, f.length,
                n -> peer.count(peer.question(f[n], null)));
            measure(engine, "two fields", seconds, buildSeconds, bytes, two.length, n -> peer.count(two[n]));
        }
    }

    private static void measure(String engine, String query, double seconds, double buildSeconds, long bytes,
            int different, Asked asked) throws Exception {
        long[] answers = new long[different];
        for (int n = 0; n < different; n++) {
            answers[n] = asked.count(n);
        }
        // Until the compiler has made the best of it.
        ask(asked, answers, seconds, new long[QUERIES_MAX]);
        long[] nanos = new long[QUERIES_MAX];
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long cpuBefore = threads.getCurrentThreadCpuTime();
        int count = ask(asked, answers, seconds, nanos);
        double cpuMicros = (threads.getCurrentThreadCpuTime() - cpuBefore) / 1e3 / count;
        nanos = Arrays.copyOf(nanos, count);
        double mean = Arrays.stream(nanos).average().orElse(0) / 1e3;
        Arrays.sort(nanos);
        System.out.printf(
            "{\"engine\":\"%s\",\"query\":\"%s\",\"queries\":%d,\"mean_micros\":%.3f,\"cpu_micros\":%.3f,\"p50_micros\":%.3f,"
                + "\"p99_micros\":%.3f,\"build_cpu_seconds\":%.2f,\"disk_bytes\":%d,\"answers\":%s}%n",
            engine, query, count, mean, cpuMicros, nanos[count / 2] / 1e3, nanos[(int) (count * 0.99)] / 1e3,
            buildSeconds, bytes, Arrays.toString(answers));
    }

    /** Asks for so long; gives how many were asked, the time of each in {@code nanos}. */
    private static int ask(Asked asked, long[] answers, double seconds, long[] nanos) throws Exception {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        int count = 0;
        long before = System.nanoTime();
        while (before < end && count < nanos.length) {
            long answer = asked.count(count % answers.length);
            long after = System.nanoTime();
            if (answer != answers[count % answers.length]) {
                throw new IllegalStateException("an answer changed");
            }
            nanos[count++] = after - before;
            before = after;
        }
        return count;
    }
}
