package quire;

import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** What the machine says of this process and of its files. */
final class Machine {
    private Machine() {}

    static double processCpuSeconds() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime() / 1e9;
    }

    /** Takes all files below out of the system's cache; nothing may map them. */
    static void evict(Path directory) throws Exception {
        run(List.of("sync"));
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                run(List.of("dd", "if=" + file, "iflag=nocache", "count=0", "status=none"));
            }
        }
    }

    private static void run(List<String> command) throws Exception {
        int status = new ProcessBuilder(command).inheritIO().start().waitFor();
        if (status != 0) {
            throw new IllegalStateException(command + ": status " + status);
        }
    }

    static long bytesBelow(Path directory) throws Exception {
        try (Stream<Path> files = Files.walk(directory)) {
            return files.filter(Files::isRegularFile).mapToLong(file -> file.toFile().length()).sum();
        }
    }
}
