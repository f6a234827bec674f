package walkfuzz.frames;

import java.lang.reflect.Method;
import java.util.concurrent.locks.LockSupport;

/** Virtual threads that yield and park while the worker waits for them. */
final class VirtualThreads implements Work {
    private static final Method START;

    static {
        Method start = null;
        // 19 and 20 have the method too, but it throws unless preview features are enabled.
        if (Runtime.version().feature() >= 21) {
            try {
                start = Thread.class.getMethod("startVirtualThread", Runnable.class);
            } catch (ReflectiveOperationException e) {
                throw new ExceptionInInitializerError(e);
            }
        }
        START = start;
    }

    @Override
    public String name() {
        return "virtual-threads";
    }

    @Override
    public boolean present() {
        return START != null;
    }

    @Override
    public long slice(Rng rng) throws Throwable {
        long[] results = new long[3];
        Thread[] threads = new Thread[results.length];
        for (int i = 0; i < threads.length; i++) {
            int slot = i;
            long x = rng.next();
            threads[i] = (Thread) START.invoke(null, (Runnable) () -> results[slot] = body(20 + slot, x));
        }
        long sum = 0;
        for (int i = 0; i < threads.length; i++) {
            threads[i].join();
            sum = sum * 31 + results[i];
        }
        return sum;
    }

    private static long body(int depth, long x) {
        if (depth == 0) {
            Thread.yield();
            LockSupport.parkNanos(1000);
            return x;
        }
        return body(depth - 1, x * 3) + depth;
    }
}
