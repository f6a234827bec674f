package walkfuzz.programs;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;

/**
 * Disturbs the JVM while a program runs: threads that repeat {@link #operate} until they are told to stop. What it did is counted;
 * an antagonist that did nothing has failed.
 */
public abstract class Antagonist {
    private static final long STOP_MILLIS = 60_000;
    private final LongAdder operations = new LongAdder();
    private final List<Thread> threads = new ArrayList<>();
    private volatile boolean stopping;
    private volatile Throwable failure;

    /** Makes ready what {@link #operate} needs. */
    protected void prepare(Settings settings) throws Exception {
    }

    /** How many threads operate at once. */
    protected int threads() {
        return 1;
    }

    /** How long each thread rests after an operation: the program must get on as well. */
    protected int restMillis() {
        return 1;
    }

    /**
     * One operation, at most some 20 ms; {@code thread} counts from 0. Answers how many things it did.
     */
    protected abstract long operate(int thread, Rng rng) throws Throwable;

    /** Throws unless a result of its own is as it must be. */
    protected static void require(String what, long expected, long got) {
        if (expected != got) {
            throw new WrongResult("expected " + expected + " got " + got + " (" + what + ")");
        }
    }

    final void start(String name, Settings settings) throws Exception {
        prepare(settings);
        for (int i = 0; i < threads(); i++) {
            int number = i;
            Thread thread = new Thread(null, () -> repeat(number, new Rng(settings.seed ^ name.hashCode() + number)), "walkfuzz-" + name + "-" + i);
            thread.setDaemon(true);
            threads.add(thread);
            thread.start();
        }
    }

    /** Tells its threads to stop and waits for them. */
    final void stop() throws InterruptedException {
        stopping = true;
        for (Thread thread : threads) {
            thread.join(STOP_MILLIS);
            if (thread.isAlive()) {
                failure = new WrongResult("expected an end within " + STOP_MILLIS + " ms got a thread that goes on: " + thread.getName());
            }
        }
    }

    final long operations() {
        return operations.sum();
    }

    /** What went wrong, or null. */
    final Throwable failure() {
        return failure;
    }

    private void repeat(int thread, Rng rng) {
        while (!stopping && failure == null) {
            try {
                operations.add(operate(thread, rng));
                if (restMillis() > 0) {
                    Thread.sleep(restMillis());
                } else {
                    Thread.yield();
                }
            } catch (OutOfMemoryError e) {
                // A small heap, metaspace or code cache, or a collector that frees nothing: the program decides whether that matters.
                rest();
            } catch (Throwable e) {
                failure = e;
            }
        }
    }

    private static void rest() {
        try {
            Thread.sleep(20);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
