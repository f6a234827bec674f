package walkfuzz.programs.antagonists;

import java.lang.reflect.Method;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;

import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Rng;
import walkfuzz.programs.Settings;
import walkfuzz.programs.Unsupported;

/** Virtual threads that yield, park, sleep, hold a monitor while they park (pinned before 24) and end. */
public final class VirtualThreads extends Antagonist {
    /** 19 and 20 have the method too, but it throws unless preview features are enabled. */
    private static final int SINCE = 21;
    private static final int BURST = 32;
    private Method start;
    private final Object monitor = new Object();

    @Override
    protected void prepare(Settings settings) throws Exception {
        if (Runtime.version().feature() < SINCE) {
            throw new Unsupported("virtual threads are in JDK " + SINCE + " and later");
        }
        start = Thread.class.getMethod("startVirtualThread", Runnable.class);
    }

    @Override
    protected long operate(int thread, Rng rng) throws Exception {
        Thread[] threads = new Thread[BURST];
        LongAdder sum = new LongAdder();
        for (int i = 0; i < BURST; i++) {
            int depth = 1 + rng.below(60);
            int kind = i % 4;
            threads[i] = (Thread) start.invoke(null, (Runnable) () -> sum.add(down(depth, kind) - depth));
        }
        for (Thread started : threads) {
            started.join();
        }
        require("ends of virtual threads", BURST, sum.sum());
        return BURST;
    }

    private long down(int depth, int kind) {
        if (depth > 0) {
            return 1 + down(depth - 1, kind);
        }
        switch (kind) {
            case 0:
                Thread.yield();
                break;
            case 1:
                LockSupport.parkNanos(20_000);
                break;
            case 2:
                try {
                    Thread.sleep(1);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
                break;
            default:
                synchronized (monitor) {
                    LockSupport.parkNanos(5_000);
                }
        }
        return 1;
    }
}
