package walkfuzz.frames;

import java.util.ServiceConfigurationError;

/** Class loading, linking, initialising, failing look-ups; what was loaded is garbage at once. */
final class Loading implements Work {
    private Fresh leaf;
    private int slice;

    @Override
    public String name() {
        return "class-loading";
    }

    @Override
    public long slice(Rng rng) throws Throwable {
        // One slice of eight defines a class: HotSpot never frees a method id, and these get theirs at once.
        if (slice++ % 8 == 0) {
            leaf = new FreshLoader().create("Leaf");
            return leaf.loop(500, rng.next());
        }
        long sum = leaf.steady(200, rng.next());
        for (int i = 0; i < 4; i++) {
            try {
                sum += Class.forName("walkfuzz.frames.Missing" + i, true, Loading.class.getClassLoader()).hashCode();
            } catch (ClassNotFoundException | ServiceConfigurationError e) {
                sum++;
            }
            sum += Class.forName("java.util.concurrent.ConcurrentHashMap").getName().length();
        }
        return sum;
    }
}
