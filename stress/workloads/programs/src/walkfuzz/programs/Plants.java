package walkfuzz.programs;

import java.io.IOException;
import java.io.PrintStream;
import java.util.concurrent.CountDownLatch;

/** Mistakes made on purpose, so that tests see what a driver makes of them. */
final class Plants {
    private static final long FLOOD_BYTES = 10L << 30;
    private static final String CHILD_SECONDS = "600";
    private static final Object[] LOCKS = {new Object(), new Object()};
    private static final CountDownLatch BOTH = new CountDownLatch(2);

    private Plants() {
    }

    /** Before the rounds begin. */
    static void start(Arguments.Plant plant, PrintStream out) throws IOException {
        switch (plant) {
            case FLOOD:
                Thread flood = new Thread(() -> flood(out), "walkfuzz-flood");
                flood.setDaemon(true);
                flood.start();
                break;
            case FORK:
                child(out, "sleep", CHILD_SECONDS);
                break;
            case DAEMON:
                child(out, "setsid", "sleep", CHILD_SECONDS);
                break;
            default:
        }
    }

    /** Two threads that never get each other's monitor; does not return. */
    static void hang() {
        Thread other = new Thread(() -> grip(0), "walkfuzz-hung");
        other.setDaemon(true);
        other.start();
        grip(1);
    }

    private static void grip(int first) {
        synchronized (LOCKS[first]) {
            BOTH.countDown();
            while (true) {
                try {
                    BOTH.await();
                    break;
                } catch (InterruptedException e) {
                    // Stubborn.
                }
            }
            synchronized (LOCKS[1 - first]) {
                throw new IllegalStateException("a deadlock that was none");
            }
        }
    }

    private static void flood(PrintStream out) {
        byte[] line = new byte[1000];
        java.util.Arrays.fill(line, (byte) '.');
        line[line.length - 1] = '\n';
        for (long written = 0; written < FLOOD_BYTES && !out.checkError(); written += line.length) {
            out.write(line, 0, line.length);
        }
    }

    private static void child(PrintStream out, String... command) throws IOException {
        Process child = new ProcessBuilder(command).inheritIO().start();
        out.println("walkfuzz: planted child " + child.pid());
        out.flush();
    }
}
