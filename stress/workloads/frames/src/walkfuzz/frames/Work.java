package walkfuzz.frames;

/**
 * One kind of work, which leaves one kind of frame on the stack. An instance belongs to one worker and is used by that
 * thread alone, so it may keep state between slices.
 */
interface Work {
    /** The kind's stable name. */
    String name();

    /** Whether this JVM can do it. */
    default boolean present() {
        return true;
    }

    /**
     * Works for some 50 to 200 microseconds once warm. The result depends on the generator and on earlier slices of this
     * instance alone, never on the JVM, so that two JVMs can be compared.
     */
    long slice(Rng rng) throws Throwable;
}
