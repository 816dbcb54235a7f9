// What the programs of clients share: steps that are checked, and that a failure names.
class Steps {
    interface Step {
        void run() throws Exception;
    }

    /** Runs a program, and ends the process: threads of a client may still run. */
    static void runAndExit(Step program) {
        try {
            program.run();
            System.exit(0);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    /** Runs a step; a failure names it. */
    static void step(String name, Step step) {
        try {
            step.run();
        } catch (Throwable error) {
            throw new IllegalStateException(name + ": " + error, error);
        }
    }

    static void check(boolean isTrue, Object found) {
        if (!isTrue) {
            throw new IllegalStateException("found " + found);
        }
    }
}
