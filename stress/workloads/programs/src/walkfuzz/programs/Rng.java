package walkfuzz.programs;

/** SplitMix64: small, seedable, and the same on every JVM. */
public final class Rng {
    private long state;

    public Rng(long seed) {
        state = seed;
    }

    public long next() {
        state += 0x9E3779B97F4A7C15L;
        long z = state;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }

    /** A number from 0 to bound - 1. */
    public int below(int bound) {
        return (int) ((next() >>> 33) % bound);
    }
}
