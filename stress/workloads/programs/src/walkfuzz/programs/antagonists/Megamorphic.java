package walkfuzz.programs.antagonists;

import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Fresh;
import walkfuzz.programs.Moulds;
import walkfuzz.programs.Rng;
import walkfuzz.programs.Settings;

/** One call site, two dozen receiver classes, in changing order: inline caches are of no use, vtable and itable stubs are. */
public final class Megamorphic extends Antagonist {
    private static final int CLASSES = 24;
    private static final int BURST = 5_000;
    private final Fresh[] receivers = new Fresh[CLASSES];
    private final Object[] objects = new Object[CLASSES];

    @Override
    protected void prepare(Settings settings) throws Exception {
        for (int i = 0; i < CLASSES; i++) {
            receivers[i] = new Moulds.Loader().create("Leaf", i);
            objects[i] = i % 3 == 0 ? Integer.valueOf(i) : i % 3 == 1 ? Long.valueOf(i) : String.valueOf(i);
        }
    }

    @Override
    protected int threads() {
        return 2;
    }

    @Override
    protected long operate(int thread, Rng rng) {
        long expected = 0;
        long sum = 0;
        for (int i = 0; i < BURST; i++) {
            int which = rng.below(CLASSES);
            expected += 2L * which;
            sum += receivers[which].stamp() + Integer.parseInt(objects[which].toString());
        }
        require("sum over all receivers", expected, sum);
        return BURST;
    }
}
