package walkfuzz.programs.fresh;

import walkfuzz.programs.Fresh;
import walkfuzz.programs.Moulds;

/** A class without others: what class loading, hidden classes and redefinition define anew. */
public final class Leaf implements Fresh {
    private static final long[] TABLE = new long[16];

    static {
        for (int i = 0; i < TABLE.length; i++) {
            TABLE[i] = i * 0x9E3779B97F4A7C15L;
        }
    }

    @Override
    public long steady(int iterations, long x) {
        long sum = x;
        for (int i = 0; i < iterations; i++) {
            sum = step(sum, i);
        }
        return sum;
    }

    @Override
    public int stamp() {
        return Moulds.STAMP;
    }

    private static long step(long sum, int i) {
        return (sum ^ TABLE[(int) (sum >>> 60)]) * 31 + i;
    }
}
