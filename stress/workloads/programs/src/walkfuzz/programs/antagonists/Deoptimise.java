package walkfuzz.programs.antagonists;

import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Fresh;
import walkfuzz.programs.Moulds;
import walkfuzz.programs.Rng;

/** Fresh classes get hot with one profile, then meet what their compiled code did not bet on; the operations are the surprises. */
public final class Deoptimise extends Antagonist {
    private static final int SURPRISES = 14;
    private final Fresh[] hot = new Fresh[2];
    private final int[] turns = new int[2];
    private volatile long sink;

    @Override
    protected int threads() {
        return 2;
    }

    @Override
    protected long operate(int thread, Rng rng) throws Exception {
        int turn = turns[thread]++ % (2 * SURPRISES);
        if (turn == 0) {
            hot[thread] = new Moulds.Loader().create("Hot");
            sink += hot[thread].steady(12_000, rng.next());
        }
        sink += hot[thread].steady(3_000, rng.next()) + hot[thread].surprise(turn, rng.next());
        return 1;
    }
}
