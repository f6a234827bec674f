package walkfuzz.programs.antagonists;

import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Fresh;
import walkfuzz.programs.Moulds;
import walkfuzz.programs.Rng;

/** Keeps the compilers busy with fresh classes and holds many of them, so that the code cache fills and is swept. */
public final class CodeCache extends Antagonist {
    private static final int HELD = 256;
    private final Fresh[] held = new Fresh[HELD];
    private volatile long sink;
    private int turn;

    @Override
    protected long operate(int thread, Rng rng) throws Exception {
        Fresh fresh = new Moulds.Loader().create("Hot");
        held[turn++ % HELD] = fresh;
        // Short calls get each method compiled by itself, a long one replaces it on the stack.
        for (int i = 0; i < 60; i++) {
            sink += fresh.steady(100, i);
        }
        Fresh old = held[rng.below(Math.min(turn, HELD))];
        sink += old.steady(4_000, 1);
        return 1;
    }
}
