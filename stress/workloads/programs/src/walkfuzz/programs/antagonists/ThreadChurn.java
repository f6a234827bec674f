package walkfuzz.programs.antagonists;

import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Rng;

/** Threads that live for a moment, on stacks of different sizes. */
public final class ThreadChurn extends Antagonist {
    private static final int BURST = 8;

    @Override
    protected long operate(int thread, Rng rng) throws Exception {
        Thread[] threads = new Thread[BURST];
        long[] sums = new long[BURST];
        for (int i = 0; i < BURST; i++) {
            int slot = i;
            int depth = 20 + rng.below(200);
            threads[i] = new Thread(null, () -> sums[slot] = down(depth), "walkfuzz-churn", (long) (256 << rng.below(4)) << 10);
            threads[i].setDaemon(true);
            threads[i].start();
            if (rng.below(4) == 0) {
                threads[i].join();
                require("sum of a thread's calls", depth, sums[i]);
            }
        }
        for (Thread started : threads) {
            started.join();
        }
        return BURST;
    }

    private static long down(int depth) {
        return depth == 0 ? 0 : 1 + down(depth - 1);
    }
}
