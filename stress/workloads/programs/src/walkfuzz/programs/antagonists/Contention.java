package walkfuzz.programs.antagonists;

import java.util.concurrent.locks.ReentrantLock;

import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Rng;

/** Three threads that fight for monitors and locks, wait and notify; what they guard is counted and checked. */
public final class Contention extends Antagonist {
    private static final int BURST = 400;
    private final Object monitor = new Object();
    private final ReentrantLock lock = new ReentrantLock();
    private long inMonitor;
    private long alsoInMonitor;
    private long inLock;
    private long alsoInLock;

    @Override
    protected int threads() {
        return 3;
    }

    @Override
    protected long operate(int thread, Rng rng) throws Exception {
        for (int i = 0; i < BURST; i++) {
            synchronized (monitor) {
                require("counts under one monitor", inMonitor, alsoInMonitor);
                inMonitor++;
                if (i % 128 == 0) {
                    monitor.notifyAll();
                    // Gives the monitor away while the counts are equal again.
                    alsoInMonitor++;
                    monitor.wait(1);
                    continue;
                }
                nested(rng.below(3));
                alsoInMonitor++;
            }
            lock.lock();
            try {
                require("counts under one lock", inLock, alsoInLock);
                inLock++;
                alsoInLock++;
            } finally {
                lock.unlock();
            }
        }
        return BURST;
    }

    private void nested(int depth) {
        synchronized (monitor) {
            if (depth > 0) {
                nested(depth - 1);
            }
        }
    }
}
