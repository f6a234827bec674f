package walkfuzz.frames;

import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/** Locks, uncontended and a little contended between the workers. */
final class Monitors {
    private static final Object[] SHARED = {new Object(), new Object()};
    private static final ReentrantLock LOCK = new ReentrantLock();
    private static final ReentrantReadWriteLock READ_WRITE = new ReentrantReadWriteLock();

    private Monitors() {
    }

    static final class Synchronised implements Work {
        private long value;

        @Override
        public String name() {
            return "synchronised";
        }

        @Override
        public long slice(Rng rng) {
            value = rng.below(1000);
            for (int i = 0; i < 500; i++) {
                add(i);
                synchronized (SHARED[i & 1]) {
                    value = value * 3 + staticAdd(value, i);
                    if ((i & 63) == 0) {
                        synchronized (SHARED[i & 1]) {
                            value++;
                        }
                        SHARED[i & 1].notifyAll();
                    }
                }
                if (i % 250 == 1) {
                    // An identity hash code changes the header, so that the next lock takes another way.
                    Object hashed = new Object();
                    Frames.sink += System.identityHashCode(hashed);
                    synchronized (hashed) {
                        value++;
                    }
                }
            }
            return value;
        }

        private synchronized void add(int i) {
            value += i;
        }

        private static synchronized long staticAdd(long x, int i) {
            return x + i;
        }
    }

    static final class Locks implements Work {
        @Override
        public String name() {
            return "locks";
        }

        @Override
        public long slice(Rng rng) {
            long sum = rng.below(1000);
            for (int i = 0; i < 300; i++) {
                LOCK.lock();
                try {
                    sum = sum * 31 + i;
                } finally {
                    LOCK.unlock();
                }
                READ_WRITE.readLock().lock();
                try {
                    sum ^= i;
                } finally {
                    READ_WRITE.readLock().unlock();
                }
            }
            LockSupport.unpark(Thread.currentThread());
            LockSupport.parkNanos(this, 1000);
            return sum;
        }
    }
}
