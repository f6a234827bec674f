package walkfuzz.programs;

/** Work came out wrong: a bug of the JVM, or damage done to it. */
public final class WrongResult extends RuntimeException {
    private static final long serialVersionUID = 1;

    WrongResult(String message) {
        super(message);
    }
}
