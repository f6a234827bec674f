package walkfuzz.frames;

/** Frames of compiled code: plain loops, on-stack replacement, inlined chains, vectorised loops. */
final class Compiled {
    private Compiled() {
    }

    /** Loops and calls that are not inlined, which pass through every tier. */
    static final class Loops implements Work {
        private final int[] table = new int[1024];

        @Override
        public String name() {
            return "compiled-loops";
        }

        @Override
        public long slice(Rng rng) {
            long sum = 0;
            int seed = rng.below(1 << 20);
            for (int round = 0; round < 6; round++) {
                sum += sieve(table) + gcds(seed + round) + manyArguments(round, seed, 3L, 4.0, 5f, sum, 7, 8L, 9.0, 10, 11L);
            }
            return sum;
        }

        private static int sieve(int[] table) {
            int primes = 0;
            for (int i = 0; i < table.length; i++) {
                table[i] = 0;
            }
            for (int i = 2; i < table.length; i++) {
                if (table[i] == 0) {
                    primes++;
                    for (int j = i * 2; j < table.length; j += i) {
                        table[j] = 1;
                    }
                }
            }
            return primes;
        }

        private static long gcds(int n) {
            long sum = 0;
            for (int i = 1; i < 40; i++) {
                int a = n;
                int b = n % 977 + i;
                while (b != 0) {
                    int t = a % b;
                    a = b;
                    b = t;
                }
                sum += a;
            }
            return sum;
        }

        /** More arguments than registers, of every class. */
        private static long manyArguments(int a, int b, long c, double d, float e, long f, int g, long h, double i, int j, long k) {
            long x = a;
            for (int n = 0; n < 20; n++) {
                x = x * b + c + (long) (d * e) + (f >>> 3) + g * h + (long) i - j * k;
            }
            return x;
        }
    }

    /**
     * A loop whose method is always entered in the interpreter and replaced on the stack by compiled code. That lasts only while
     * the method has been called less than some hundred times, therefore each class copy is thrown away in time.
     */
    static final class OnStackReplaced implements Work {
        private static final int LIFE = 60;
        private Fresh hot;
        private int uses;

        @Override
        public String name() {
            return "osr";
        }

        @Override
        public long slice(Rng rng) throws Throwable {
            if (hot == null || ++uses >= LIFE) {
                hot = new FreshLoader().create("Hot");
                uses = 0;
            }
            return hot.loop(uses < 4 ? 30_000 : 60_000, rng.next());
        }
    }

    /** A chain of small methods, all inlined into one frame of machine code. */
    static final class Inlined implements Work {
        private long state;

        @Override
        public String name() {
            return "inlined";
        }

        @Override
        public long slice(Rng rng) {
            state = rng.next();
            long sum = 0;
            for (int i = 0; i < 15_000; i++) {
                sum += chain(state, i) + get() + twice(i);
                put(sum);
            }
            return sum;
        }

        private long get() {
            return state;
        }

        private void put(long value) {
            state = value;
        }

        private int twice(int i) {
            return i + i;
        }
    }

    static long chain(long x, int i) {
        return second(x + i) ^ i;
    }

    private static long second(long x) {
        return (x & 1) == 0 ? third(x) : third(-x);
    }

    private static long third(long x) {
        return fourth(x, x >>> 7);
    }

    private static long fourth(long x, long y) {
        return x * 31 + fifth(y);
    }

    private static long fifth(long y) {
        return Math.max(y, 3) & 0xFFFF;
    }

    /** Loops that C2 unrolls and turns into vector instructions, with pre, main and post loops. */
    static final class Vectors implements Work {
        private final int[] a = new int[2000];
        private final int[] b = new int[2000];
        private final double[] d = new double[2000];
        private final byte[] bytes = new byte[2000];

        @Override
        public String name() {
            return "vectors";
        }

        @Override
        public long slice(Rng rng) {
            int seed = rng.below(1000);
            long sum = 0;
            for (int round = 0; round < 6; round++) {
                int length = 1900 + (seed + round) % 100;
                fill(length, seed + round);
                sum += reduce(length);
            }
            return sum;
        }

        private void fill(int length, int seed) {
            for (int i = 0; i < length; i++) {
                a[i] = i * seed;
                b[i] = a[i] ^ seed;
                d[i] = a[i] * 0.5 + 1;
                bytes[i] = (byte) (i + seed);
            }
        }

        private long reduce(int length) {
            int ints = 0;
            int all = 0;
            for (int i = 0; i < length; i++) {
                ints += a[i] * b[i];
                all += bytes[i];
            }
            double most = 0;
            for (int i = 0; i < length; i++) {
                most = Math.max(most, d[i]);
            }
            return ints + all + (long) most;
        }
    }
}
