package walkfuzz.programs.antagonists;

import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Rng;

/** Garbage of all sizes, some of which lives for a while: at most an eighth of the heap. */
public final class Allocation extends Antagonist {
    private static final int BURST = 200;
    private static final int LARGEST = 256 << 10;
    private Object[] living;

    @Override
    protected void prepare(walkfuzz.programs.Settings settings) {
        long most = Math.min(32 << 20, Runtime.getRuntime().maxMemory() / 8);
        living = new Object[(int) Math.max(16, most / (16 << 10))];
    }

    @Override
    protected int threads() {
        return 2;
    }

    @Override
    protected long operate(int thread, Rng rng) {
        for (int i = 0; i < BURST; i++) {
            Object made;
            switch (rng.below(64)) {
                case 0:
                    made = new byte[rng.below(LARGEST)];
                    break;
                case 1:
                    made = new long[4][rng.below(1024)];
                    break;
                case 2:
                    made = new Object[] {living[rng.below(living.length)] instanceof byte[] ? this : null};
                    break;
                default:
                    made = new byte[rng.below(512)];
            }
            if (rng.below(8) == 0) {
                living[rng.below(living.length)] = made;
            }
        }
        return BURST;
    }
}
