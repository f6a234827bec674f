package walkfuzz.programs;

/** A program that does real work in rounds and checks what comes out. An instance is made once per JVM. */
public interface Program extends AutoCloseable {
    /** Starts servers and pools, reads inputs; before the time counts. */
    default void prepare(Settings settings) throws Exception {
    }

    /** How many threads run rounds at once. Programs that are parallel inside a round say 1. */
    default int workers(Settings settings) {
        return settings.threads;
    }

    /**
     * Does one round, some 1 to 500 ms. Called by several threads at once. All randomness comes from {@code rng}, so that a
     * round's result depends on its number alone. Each result goes to {@code checks}.
     */
    void round(Rng rng, Checks checks) throws Exception;

    @Override
    default void close() throws Exception {
    }
}
