package walkfuzz.programs.antagonists;

import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Rng;

/** Exceptions thrown from some depth: explicit ones with and without a stack trace, implicit ones of null, ranges, types and division. */
public final class Exceptions extends Antagonist {
    private static final int BURST = 300;
    private static final int[] NUMBERS = new int[3];

    private static final class Light extends RuntimeException {
        private static final long serialVersionUID = 1;

        Light() {
            super("light", null, false, false);
        }
    }

    @Override
    protected int threads() {
        return 2;
    }

    @Override
    protected long operate(int thread, Rng rng) {
        long caught = 0;
        for (int i = 0; i < BURST; i++) {
            int depth = rng.below(40);
            try {
                fall(depth, i % 7, i);
            } catch (RuntimeException e) {
                caught++;
            }
        }
        require("exceptions caught", BURST, caught);
        return caught;
    }

    private static int fall(int depth, int kind, int x) {
        if (depth > 0) {
            try {
                return fall(depth - 1, kind, x) + 1;
            } catch (IllegalStateException e) {
                throw new IllegalArgumentException(e);
            } finally {
                x++;
            }
        }
        switch (kind) {
            case 0:
                throw new IllegalStateException("thrown");
            case 1:
                throw new Light();
            case 2:
                return nothing(x).length;
            case 3:
                return NUMBERS[3 + (x & 7)];
            case 4:
                return ((Integer) (Object) "text") + x;
            case 5:
                return 1 / (x & 0);
            default:
                Object[] texts = new String[1];
                texts[0] = Integer.valueOf(x);
                return x;
        }
    }

    private static int[] nothing(int x) {
        return x < 0 ? NUMBERS : null;
    }
}
