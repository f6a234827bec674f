package walkfuzz.programs;

import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.atomic.LongAdder;

/** Compares results with what is known, and counts. Any thread may call it. */
public final class Checks {
    private final LongAdder made = new LongAdder();
    private final LongAdder pieces = new LongAdder();
    private final boolean plantWrong;

    Checks(boolean plantWrong) {
        this.plantWrong = plantWrong;
    }

    public void equal(String what, long expected, long got) {
        made.increment();
        // The planted mistake is made here, so that all that follows a mistake is tried.
        long result = plantWrong && made.sum() > 2 ? got ^ 1 : got;
        if (expected != result) {
            throw new WrongResult("expected " + expected + " got " + result + " (" + what + ")");
        }
    }

    public void same(String what, Object expected, Object got) {
        equalText(what, String.valueOf(expected), String.valueOf(got), Objects.equals(expected, got));
    }

    public void equal(String what, byte[] expected, byte[] got) {
        equalText(what, expected.length + " bytes", "others", Arrays.equals(expected, got));
    }

    public void equal(String what, int[] expected, int[] got) {
        equalText(what, expected.length + " numbers", "others", Arrays.equals(expected, got));
    }

    public void holds(String what, boolean true_) {
        equal(what, 1, true_ ? 1 : 0);
    }

    /** Says that a part of a long round is done, which is progress. */
    public void piece() {
        pieces.increment();
    }

    long made() {
        return made.sum();
    }

    long pieces() {
        return pieces.sum();
    }

    private void equalText(String what, String expected, String got, boolean same) {
        made.increment();
        if (!same || plantWrong && made.sum() > 2) {
            throw new WrongResult("expected " + shortened(expected) + " got " + shortened(got) + " (" + what + ")");
        }
    }

    private static String shortened(String text) {
        String line = text.replace('\n', ' ');
        return line.length() <= 80 ? line : line.substring(0, 77) + "...";
    }
}
