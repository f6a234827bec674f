package walkfuzz.programs;

/** This JVM, or this machine, cannot do it; the message is the reason. */
public final class Unsupported extends Exception {
    private static final long serialVersionUID = 1;

    public Unsupported(String reason) {
        super(reason);
    }
}
