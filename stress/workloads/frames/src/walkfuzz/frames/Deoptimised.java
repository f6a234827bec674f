package walkfuzz.frames;

/**
 * Frames that are deoptimised: a fresh class gets hot with one profile, then its compiled code meets what it did not bet on
 * (class hierarchy, null, type, range, branch, division, store check, overflow, escaped objects).
 */
final class Deoptimised implements Work {
    private static final int WARM = 24;
    private static final int SURPRISES = 9;
    private Fresh hot;
    private int slice;

    @Override
    public String name() {
        return "deoptimisation";
    }

    @Override
    public long slice(Rng rng) throws Throwable {
        int phase = slice++ % (WARM + 4 * SURPRISES);
        if (phase == 0) {
            hot = new FreshLoader().create("Hot");
        }
        if (phase < WARM) {
            return hot.steady(600, rng.next());
        }
        return hot.surprise(phase - WARM, rng.next()) + hot.steady(300, phase);
    }
}
