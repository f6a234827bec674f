package walkfuzz.programs;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

/** The rounds of a program, by its workers, until there were enough or the time is over. */
final class Rounds {
    /** Rounds before the planted hang. */
    private static final long HANG_AFTER = 3;
    private final Program program;
    private final Arguments arguments;
    private final Settings settings;
    private final Checks checks;
    private final AtomicLong next = new AtomicLong();
    private final LongAdder done = new LongAdder();
    private volatile Throwable failure;
    private long began;
    private long ended;

    Rounds(Program program, Arguments arguments, Settings settings) {
        this.program = program;
        this.arguments = arguments;
        this.settings = settings;
        this.checks = new Checks(arguments.plant == Arguments.Plant.WRONG);
    }

    /** Returns when all workers have ended. */
    void run() throws InterruptedException {
        began = System.nanoTime();
        Thread[] workers = new Thread[program.workers(settings)];
        for (int i = 0; i < workers.length; i++) {
            workers[i] = new Thread(this::work, "walkfuzz-worker-" + i);
            workers[i].setDaemon(true);
            workers[i].start();
        }
        for (Thread worker : workers) {
            worker.join();
        }
        ended = System.nanoTime();
    }

    /** Throws what a round threw. */
    void rethrow() throws Throwable {
        if (failure != null) {
            throw failure;
        }
    }

    long done() {
        return done.sum();
    }

    /** Rounds, and parts of long ones. */
    long progress() {
        return done.sum() + checks.pieces();
    }

    long checks() {
        return checks.made();
    }

    double seconds() {
        return (ended - began) / 1e9;
    }

    /** So many rounds are made however long they take. */
    private long least() {
        return arguments.plant == Arguments.Plant.HANG ? HANG_AFTER : 1;
    }

    private void work() {
        while (failure == null) {
            long round = next.getAndIncrement();
            if (arguments.plant == Arguments.Plant.HANG && round >= HANG_AFTER) {
                Plants.hang();
            }
            if (round >= arguments.rounds || round >= least() && (System.nanoTime() - began) / 1e9 >= arguments.seconds) {
                return;
            }
            try {
                program.round(new Rng(settings.seed * 0x632BE59BD9B4E019L + round), checks);
                done.increment();
            } catch (Throwable e) {
                failure = e;
            }
        }
    }
}
