package walkfuzz.programs.antagonists;

import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Rng;

/** A full collection every 20 ms. Collectors or options that ignore the request ignore it, and count all the same. */
public final class Collect extends Antagonist {
    @Override
    protected int restMillis() {
        return 20;
    }

    @Override
    protected long operate(int thread, Rng rng) {
        System.gc();
        return 1;
    }
}
