package walkfuzz.programs;

/** What the command line says. */
public final class Settings {
    /** Threads that work at once. */
    public final int threads;
    /** Where all randomness begins. */
    public final long seed;

    Settings(int threads, long seed) {
        this.threads = threads;
        this.seed = seed;
    }
}
