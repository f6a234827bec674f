package walkfuzz.frames.fresh;

import walkfuzz.frames.Fresh;

/** Methods that get hot with one profile and are then surprised; each copy of the class deoptimises anew. */
public final class Hot implements Fresh {
    private final Shape square = new Square();
    private final int[] numbers = new int[64];
    private final Object[] objects = new Integer[4];
    private long[] box = {1};

    @Override
    public long loop(int rounds, long x) {
        long sum = x;
        for (int i = 0; i < rounds; i++) {
            sum += sum >>> 3 ^ i;
            if ((i & 1023) == 0) {
                sum += square.area(i);
            }
        }
        return sum;
    }

    @Override
    public long steady(int rounds, long x) {
        long sum = x;
        for (int i = 0; i < rounds; i++) {
            sum += area(square, i) + unbox(box) + add(1, i & 63) + length("text") + branch(i) + divide(i, 3) + sums(i);
            store(objects, i);
        }
        return sum;
    }

    @Override
    public long surprise(int which, long x) {
        long sum = x;
        switch (which % 9) {
            case 0: // class hierarchy: from now on area has two implementations
                sum += area(new Circle(), 5);
                break;
            case 1: // implicit null check
                try {
                    sum += unbox(null);
                } catch (NullPointerException e) {
                    sum++;
                }
                break;
            case 2: // range check
                try {
                    sum += add(1, 64);
                } catch (ArrayIndexOutOfBoundsException e) {
                    sum++;
                }
                break;
            case 3: // type check
                sum += length(new StringBuilder("builder")) + length(new char[3]);
                break;
            case 4: // a branch never taken before
                sum += branch(-7);
                break;
            case 5: // division by zero
                try {
                    sum += divide(1, 0);
                } catch (ArithmeticException e) {
                    sum++;
                }
                break;
            case 6: // array store check
                try {
                    store(new String[4], 1);
                } catch (ArrayStoreException e) {
                    sum++;
                }
                break;
            case 7: // overflow of an exact intrinsic
                try {
                    sum += sums(Integer.MAX_VALUE);
                } catch (ArithmeticException e) {
                    sum++;
                }
                break;
            default: // a scalar-replaced and lock-elided object must be rebuilt
                sum += escape((int) x | 1);
                break;
        }
        return sum + escape(0);
    }

    private static long area(Shape shape, long x) {
        return shape.area(x) + 1;
    }

    private static long unbox(long[] box) {
        return box[0];
    }

    private long add(int x, int index) {
        return numbers[index] += x;
    }

    private static int length(Object o) {
        if (o instanceof CharSequence) {
            return ((CharSequence) o).length();
        }
        return o.hashCode() == 0 ? 1 : 0;
    }

    private static long branch(int i) {
        if (i < 0) {
            return new long[] {i, 2}[1] + Long.toString(i).length();
        }
        return i;
    }

    private static int divide(int a, int b) {
        return a / b;
    }

    private static int sums(int i) {
        return Math.addExact(i, 1);
    }

    private static void store(Object[] array, int i) {
        array[i & 3] = Integer.valueOf(i & 63);
    }

    private static long escape(int way) {
        long sum = 0;
        for (int i = 0; i < 40; i++) {
            long[] pair = {i, way};
            StringBuffer text = new StringBuffer(8);
            synchronized (text) {
                sum += pair[i & 1];
                if (way != 0 && i == 20) {
                    text.append(pair[0]).append(pair.length);
                    sum += text.length();
                }
            }
        }
        return sum;
    }
}
