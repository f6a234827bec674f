package walkfuzz.frames;

/** Exceptions and recursion. */
final class Unwinding {
    private Unwinding() {
    }

    /** A checked exception that remembers a number. */
    static final class Signal extends Exception {
        private static final long serialVersionUID = 1;
        final long value;

        Signal(String message, long value, boolean trace) {
            super(message, null, false, trace);
            this.value = value;
        }
    }

    /** Thrown exceptions that pass compiled, interpreted and inlined frames, finally blocks and monitors. */
    static final class Thrown implements Work {
        @Override
        public String name() {
            return "exceptions";
        }

        @Override
        public long slice(Rng rng) {
            long sum = rng.below(100);
            for (int i = 0; i < 24; i++) {
                try {
                    sum += descend(4 + i % 12, sum, (i & 3) != 0);
                } catch (Signal e) {
                    sum += e.value;
                }
            }
            return sum;
        }

        private long descend(int depth, long x, boolean trace) throws Signal {
            if (depth == 0) {
                throw new Signal("bottom", x & 0xFFFF, trace);
            }
            try {
                if (depth % 5 == 3) {
                    synchronized (this) {
                        return descend(depth - 1, x + depth, trace);
                    }
                }
                return descend(depth - 1, x + depth, trace);
            } catch (Signal e) {
                if (depth % 7 == 2) {
                    throw new Signal("again", e.value + 1, false);
                }
                throw e;
            } finally {
                Frames.sink = x;
            }
        }
    }

    /** Exceptions that a fault or a runtime check raises. */
    static final class Implicit implements Work {
        private final int[] numbers = new int[4];
        private final Object[] strings = new String[4];

        @Override
        public String name() {
            return "implicit-exceptions";
        }

        @Override
        public long slice(Rng rng) {
            long sum = 0;
            int from = rng.below(6);
            for (int i = 0; i < 24; i++) {
                try {
                    sum += provoke((from + i) % 6, i < 0 ? "" : null);
                } catch (NullPointerException e) {
                    sum += 1;
                } catch (ArrayIndexOutOfBoundsException e) {
                    sum += 20;
                } catch (ArithmeticException e) {
                    sum += 300;
                } catch (ClassCastException e) {
                    sum += 4000;
                } catch (NegativeArraySizeException e) {
                    sum += 50000;
                } catch (ArrayStoreException e) {
                    sum += 600000;
                }
            }
            return sum;
        }

        private long provoke(int which, String none) {
            switch (which) {
                case 0: return none.length();
                case 1: return numbers[numbers.length + which];
                case 2: return which / (which - 2);
                case 3: return ((Integer) (Object) "text").longValue();
                case 4: return new byte[-which].length;
                default:
                    strings[which & 3] = which;
                    return 0;
            }
        }
    }

    /** Recursion up to some 400 frames, with frames of several sizes. */
    static final class Deep implements Work {
        @Override
        public String name() {
            return "deep-recursion";
        }

        @Override
        public long slice(Rng rng) {
            long sum = 0;
            for (int i = 0; i < 4; i++) {
                sum += down(100 + rng.below(300), rng.next());
            }
            return sum;
        }

        private long down(int depth, long x) {
            if (depth <= 0) {
                return bottom(x);
            }
            if (depth % 50 == 7) {
                long sum = 0;
                for (int i = 0; i < 16; i++) {
                    sum += x >>> i;
                }
                return down(depth - 1, sum) + 1;
            }
            if (depth % 9 == 4) {
                return wide(depth - 1, x, x + 1, x + 2, x + 3, x + 4, 1.5, 2.5) ^ depth;
            }
            return down(depth - 1, x + depth) + x;
        }

        private long wide(int depth, long a, long b, long c, long d, long e, double f, double g) {
            long inner = down(depth - 1, a ^ b);
            return inner + a * b + c * d + e + (long) (f * g);
        }

        private static long bottom(long x) {
            long sum = x;
            for (int i = 0; i < 2000; i++) {
                sum = Long.rotateLeft(sum, 7) + i;
            }
            return sum;
        }
    }

    /** Mutual recursion through an interface, a virtual method, a lambda and the interpreter. */
    static final class Mutual implements Work {
        interface Step {
            long take(int depth, long x);
        }

        private final Step lambda = (depth, x) -> odd(depth - 1, x * 5);
        private final Step object = new Step() {
            @Override
            public long take(int depth, long x) {
                return depth % 3 == 0 ? lambda.take(depth - 1, x) : odd(depth - 1, x + 1);
            }
        };

        @Override
        public String name() {
            return "mutual-recursion";
        }

        @Override
        public long slice(Rng rng) {
            long sum = 0;
            for (int i = 0; i < 12; i++) {
                sum += even(60 + rng.below(100), rng.next());
            }
            return sum;
        }

        private long even(int depth, long x) {
            return depth <= 0 ? x : 1 + (depth % 4 == 0 ? object.take(depth - 1, x) : odd(depth - 1, x - depth));
        }

        private long odd(int depth, long x) {
            if (depth <= 0) {
                return Interpreted.huge(0, 0, x, this);
            }
            return 2 + even(depth - 1, x ^ depth);
        }
    }
}
