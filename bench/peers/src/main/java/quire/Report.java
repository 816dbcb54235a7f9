package quire;

import java.util.Locale;
import java.util.StringJoiner;

/** What is found out about an engine: the last line that a program of `quire-bench converged` prints. */
final class Report {
    private final StringJoiner figures = new StringJoiner(",");
    private final StringJoiner answers = new StringJoiner(",");

    void add(String name, String unit, double value) {
        figures.add(String.format(Locale.ROOT, "[\"%s\",\"%s\",%.4f]", name, unit, value));
    }

    void answer(String name, long[] values) {
        StringJoiner all = new StringJoiner(",");
        for (long value : values) {
            all.add(Long.toString(value));
        }
        answers.add("\"" + name + "\":[" + all + "]");
    }

    void rate(long count, double wallSeconds, double cpuSeconds) {
        add("CPU a document", "CPU µs", cpuSeconds * 1e6 / count);
        add("documents by CPU", "documents/s", count / cpuSeconds);
        add("documents by the clock", "documents/s", count / wallSeconds);
    }

    void print() {
        System.out.println("{\"figures\":[" + figures + "],\"answers\":{" + answers + "}}");
    }
}
