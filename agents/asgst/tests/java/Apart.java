/** A class that is loaded by a loader of its own, and unloaded with it. */
public final class Apart {
    public static int answer() {
        return 42;
    }
}
