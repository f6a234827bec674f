package walkfuzz.programs.jdk;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;

/** The same calls in each round, some 20 frames deep and without garbage: what a measurement of overhead is made on. */
public final class Steady implements Program {
    private static final int DEPTH = 20;
    private static final int TIMES = 20;
    private static final long FIBONACCI = 6765;

    /** A step of the recursion; three classes take turns, so that no call site knows whom it calls. */
    private abstract static class Step {
        Step next;

        abstract long count(int n);
    }

    private static final class Left extends Step {
        @Override
        long count(int n) {
            return n < 2 ? n : next.count(n - 1) + next.count(n - 2);
        }
    }

    private static final class Right extends Step {
        @Override
        long count(int n) {
            return n < 2 ? n : next.count(n - 2) + next.count(n - 1);
        }
    }

    private static final class Middle extends Step {
        @Override
        long count(int n) {
            if (n < 2) {
                return n;
            }
            long first = next.count(n - 1);
            return first + next.count(n - 2);
        }
    }

    private final Step first = new Left();

    /** Makes the circle of steps. */
    public Steady() {
        Step second = new Right();
        Step third = new Middle();
        first.next = second;
        second.next = third;
        third.next = first;
    }

    @Override
    public void round(Rng rng, Checks checks) {
        long sum = 0;
        for (int i = 0; i < TIMES; i++) {
            sum += first.count(DEPTH);
        }
        checks.equal("sum of Fibonacci numbers", TIMES * FIBONACCI, sum);
    }
}
