package walkfuzz.programs.antagonists;

import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Rng;

/** Deep recursion, mutual recursion of three methods, and now and then to the end of a stack. */
public final class Recursion extends Antagonist {
    private static final int DEPTH = 1_500;
    private static final int OVERFLOW_EVERY = 40;
    private int turn;
    private volatile int deepest;

    @Override
    protected long operate(int thread, Rng rng) throws Exception {
        int depth = rng.below(DEPTH);
        require("depth of recursion", depth, down(depth));
        require("depth of mutual recursion", depth, ping(depth));
        if (++turn % OVERFLOW_EVERY != 0) {
            return 2L * depth;
        }
        // A stack of its own: what an overflow interrupts must not be anybody's bookkeeping.
        Thread diver = new Thread(null, this::dive, "walkfuzz-diver", 512 << 10);
        diver.setDaemon(true);
        diver.start();
        diver.join();
        require("end of a stack was reached", 1, deepest > 100 ? 1 : 0);
        return deepest;
    }

    private void dive() {
        int[] reached = new int[1];
        try {
            forever(reached);
        } catch (StackOverflowError e) {
            deepest = reached[0];
        }
    }

    private static int forever(int[] reached) {
        reached[0]++;
        return forever(reached) + 1;
    }

    private static long down(int depth) {
        return depth == 0 ? 0 : 1 + down(depth - 1);
    }

    private static long ping(int depth) {
        return depth == 0 ? 0 : 1 + pong(depth - 1);
    }

    private static long pong(int depth) {
        return depth == 0 ? 0 : 1 + pang(depth - 1);
    }

    private static long pang(int depth) {
        return depth == 0 ? 0 : 1 + ping(depth - 1);
    }
}
