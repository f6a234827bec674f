package walkfuzz.frames.fresh;

import walkfuzz.frames.Fresh;

/** A small class for loading, linking, initialising and unloading. */
public final class Leaf implements Fresh {
    private static final long[] TABLE = new long[16];

    static {
        for (int i = 0; i < TABLE.length; i++) {
            TABLE[i] = i * 0x9E3779B9L;
        }
    }

    @Override
    public long loop(int rounds, long x) {
        long sum = x;
        for (int i = 0; i < rounds; i++) {
            sum += TABLE[(int) (sum & 15)];
        }
        return sum;
    }

    @Override
    public long steady(int rounds, long x) {
        return loop(rounds, x) + 1;
    }

    @Override
    public long surprise(int which, long x) {
        return loop(which, x) - 1;
    }
}
