package walkfuzz.programs;

/** What the classes of package {@code walkfuzz.programs.fresh} do, each time they are defined anew. */
public interface Fresh {
    /** Work that gets hot with one profile; what comes out depends on the arguments alone. */
    long steady(int iterations, long x);

    /** Breaks what compilers bet on while {@link #steady} was hot. */
    default long surprise(int kind, long x) {
        return 0;
    }

    /** The number that its definition holds. */
    default int stamp() {
        return 0;
    }
}
