package walkfuzz.programs.fresh;

import walkfuzz.programs.Fresh;

/** Gets hot with one profile, then meets what its compiled code did not bet on. */
public class Hot implements Fresh {
    /** How many kinds of surprise there are. */
    private static final int KINDS = 7;
    private Shape shape = new Square();
    private final int[] numbers = new int[64];

    /** One implementation is loaded while steady work gets hot: its calls are bound without a check. */
    abstract static class Shape {
        abstract long area(long x);
    }

    static final class Square extends Shape {
        @Override
        long area(long x) {
            return x * x;
        }
    }

    /** Loaded late: compiled code that knew one implementation is thrown away. */
    static final class Circle extends Shape {
        @Override
        long area(long x) {
            return x * 3;
        }
    }

    @Override
    public long steady(int iterations, long x) {
        long sum = x;
        for (int i = 0; i < iterations; i++) {
            sum += work(shape, numbers, i & 63, sum, "text", 7);
        }
        return sum;
    }

    @Override
    public long surprise(int kind, long x) {
        try {
            switch (kind % KINDS) {
                case 0:
                    return work(new Circle(), numbers, 1, x, "text", 7);
                case 1:
                    return work(null, numbers, 1, x, "text", 7);
                case 2:
                    return work(shape, numbers, 64 + (int) (x & 7), x, "text", 7);
                case 3:
                    return work(shape, null, 1, x, "text", 7);
                case 4:
                    return work(shape, numbers, 1, x, Integer.valueOf(3), 7);
                case 5:
                    return work(shape, numbers, 1, x, "text", 0);
                default:
                    return work(shape, numbers, 1, Long.MIN_VALUE, "text", -1);
            }
        } catch (NullPointerException | ArrayIndexOutOfBoundsException | ClassCastException | ArithmeticException e) {
            return e.getClass().getName().length();
        }
    }

    private static long work(Shape shape, int[] numbers, int index, long x, Object text, int divisor) {
        if (x == Long.MIN_VALUE) {
            return rare(x) + numbers[index];
        }
        // Would live on the heap only if the method were not compiled.
        long[] pair = {x, shape.area(x)};
        numbers[index] += ((String) text).length();
        return (pair[0] + pair[1]) / divisor + numbers[index];
    }

    private static long rare(long x) {
        return Long.numberOfTrailingZeros(x);
    }
}
