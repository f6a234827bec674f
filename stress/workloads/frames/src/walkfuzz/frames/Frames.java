package walkfuzz.frames;

/**
 * A workload that makes every kind of Java frame, for a stack walker to walk. Embedded, the three natives are bound by
 * the process that started the JVM, which hands out turns; alone, {@link #main} runs every kind for a while.
 */
public final class Frames {
    /** Told on a worker's own thread before its first turn. */
    static native void threadStarted(int index);

    /**
     * Waits until it is this worker's turn. Negative: stop. 0: the worker chooses the kind of work. Positive: do kind
     * (result - 1), counted as in {@link #kinds}, modulo their number.
     */
    static native int awaitTurn(int index);

    /** Told on a worker's own thread after its last turn. */
    static native void threadStopped(int index);

    /** Keeps results alive, so that no compiler removes the work. */
    static volatile long sink;

    private static volatile int failures;

    private Frames() {
    }

    /** A fresh set of every kind of work, in a fixed order; kinds that this JVM lacks say so by {@link Work#present}. */
    static Work[] all() {
        return new Work[] {
            new Interpreted(), new Compiled.Loops(), new Compiled.OnStackReplaced(), new Compiled.Inlined(),
            new Compiled.Vectors(), new Calls.Virtual(), new Calls.Interface(), new Calls.Lambdas(),
            new Calls.Handles(), new Calls.Reflected(), new Unwinding.Thrown(), new Unwinding.Implicit(),
            new Unwinding.Deep(), new Unwinding.Mutual(), new Monitors.Synchronised(), new Monitors.Locks(),
            new Deoptimised(), new Loading(), new Natives.Calls(), new Natives.Files(), new Stubs.Copies(),
            new Stubs.Strings(), new Stubs.Checksums(), new Stubs.Maths(), new Crypto.Digests(), new Crypto.Ciphers(),
            new Crypto.BigNumbers(), new Memory.Allocation(), new Memory.Collections(), new Memory.Atomics(),
            new Continuations(), new VirtualThreads(),
        };
    }

    /** The names of the kinds, separated by commas; a kind that this JVM lacks has a minus sign before its name. */
    public static String kinds() {
        StringBuilder names = new StringBuilder();
        for (Work work : all()) {
            names.append(names.length() == 0 ? "" : ",").append(work.present() ? "" : "-").append(work.name());
        }
        return names.toString();
    }

    /** Starts workers and antagonist with the usual settings: an antagonist every 200 ms, no warm-up. */
    public static void start(int threads, long seed) {
        start(threads, seed, 200, 0);
    }

    /**
     * Starts daemon workers. The antagonist (deoptimisation, class unloading, collections) wakes up every so many
     * milliseconds, 0 for never; each worker first runs all kinds for so many milliseconds that compiled code exists.
     */
    public static void start(int threads, long seed, int antagonistMillis, int warmUpMillis) {
        for (int index = 0; index < threads; index++) {
            daemon(new Worker(index, seed + index, warmUpMillis), "walkfuzz-worker-" + index);
        }
        if (antagonistMillis > 0) {
            daemon(new Antagonist(seed, antagonistMillis), "walkfuzz-antagonist");
        }
    }

    /**
     * Runs a slice; a failure ends the slice alone. Without memory (a collector that frees nothing, a small heap) any kind may
     * fail, in any class's initialiser, and the thread must go on to be walked. Other failures are told, the first ones.
     */
    static void attempt(Work work, Rng rng) {
        try {
            sink += work.slice(rng);
        } catch (VirtualMachineError e) {
            sink++;
        } catch (Throwable e) {
            if (failures++ < 3) {
                System.err.println("walkfuzz.frames: " + work.name() + " failed: " + e + ", " + e.getCause());
            }
        }
    }

    private static void daemon(Runnable body, String name) {
        Thread thread = new Thread(null, body, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Runs every kind alone; argument: milliseconds for all kinds together (default 2000). */
    public static void main(String[] args) throws Throwable {
        long millis = args.length > 0 ? Long.parseLong(args[0]) : 2000;
        Work[] works = all();
        System.out.printf("walkfuzz.frames on %s%n", System.getProperty("java.vm.version"));
        System.out.printf("%-18s %8s %10s  %s%n", "kind", "slices", "us/slice", "checksum of 64 slices");
        for (int kind = 0; kind < works.length; kind++) {
            Work work = works[kind];
            if (!work.present()) {
                System.out.printf("%-18s %8s%n", work.name(), "absent");
                continue;
            }
            Rng rng = new Rng(kind);
            long checksum = 0;
            long slices = 0;
            long begin = System.nanoTime();
            long end = begin + millis * 1_000_000 / works.length;
            while (slices < 64 || System.nanoTime() - end < 0) {
                long result = work.slice(rng);
                if (slices < 64) {
                    checksum = checksum * 31 + result;
                }
                sink += result;
                slices++;
            }
            double each = (System.nanoTime() - begin) / 1e3 / slices;
            System.out.printf("%-18s %8d %10.1f  %016x%n", work.name(), slices, each, checksum);
        }
    }
}
