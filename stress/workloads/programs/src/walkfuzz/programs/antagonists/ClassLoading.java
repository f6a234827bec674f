package walkfuzz.programs.antagonists;

import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Moulds;
import walkfuzz.programs.Rng;

/** Defines, links, initialises and calls classes of loaders that are garbage at once; collections unload them. */
public final class ClassLoading extends Antagonist {
    /** Metaspace alone asks for a collection late. */
    private static final int COLLECT_EVERY = 400;
    private int turn;

    @Override
    protected long operate(int thread, Rng rng) throws Exception {
        int stamp = (int) rng.next();
        Moulds.Loader loader = new Moulds.Loader();
        require("number in the class file", stamp, loader.create("Leaf", stamp).stamp());
        int missing = 0;
        try {
            Class.forName("walkfuzz.programs.Missing" + (turn & 7), true, loader);
        } catch (ClassNotFoundException e) {
            missing = 1;
        }
        require("classes that are not there", 1, missing);
        if (++turn % COLLECT_EVERY == 0) {
            System.gc();
        }
        return 1;
    }
}
