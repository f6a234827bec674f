import java.io.InputStream;
import java.security.MessageDigest;
import java.util.function.LongUnaryOperator;
import java.util.zip.CRC32;

/**
 * Java threads to be walked. They keep interpreted and compiled frames, native methods, stubs and intrinsics, entry frames (Java called
 * by the JVM), exceptions, deoptimised and unloaded code alive. Argument: for how many seconds (default 60).
 */
public final class Walked {
    static volatile long sink;

    public static void main(String[] args) throws Exception {
        long seconds = args.length > 0 ? Long.parseLong(args[0]) : 60;
        for (int i = 0; i < 3; i++) {
            long seed = i;
            Thread thread = new Thread(() -> work(seed), "walked-" + i);
            thread.setDaemon(true);
            thread.start();
        }
        for (long tenths = 10 * seconds; tenths > 0; tenths--) {
            Thread.sleep(100);
            if (tenths % 8 == 0) {
                System.gc(); // unloads the classes of dead loaders, with their code
            }
        }
    }

    static void work(long x) {
        for (int round = 0;; round++) {
            try {
                x += compiled(x) + calls(x) + down(20 + round % 200, x) + stubs(round, x);
                x += new Copies().create().run(x, round % 40);
            } catch (Throwable e) {
                x += e.hashCode();
            }
            sink = x;
        }
    }

    /** Compiled by C1, soon by C2, entered by on-stack replacement. */
    static long compiled(long x) {
        int[] numbers = new int[512];
        for (int round = 0; round < 40; round++) {
            for (int i = 1; i < numbers.length; i++) {
                numbers[i] += numbers[i - 1] * 31 + (int) x;
                x += numbers[i] % (i + 1);
            }
        }
        return x;
    }

    static long down(int depth, long x) {
        if (depth == 0) {
            try {
                throw new IllegalStateException("bottom");
            } catch (IllegalStateException e) {
                return x + e.getMessage().length();
            }
        }
        return depth % 3 == 0 ? down(depth - 1, x * 3) + depth : down(depth - 1, x + depth) ^ x;
    }

    /** More receivers than an inline cache holds: vtable and itable stubs. */
    static final LongUnaryOperator[] OPERATORS = {x -> x + 1, x -> x * 3, x -> x ^ 5, x -> -x, x -> ~x};
    static final Object[] OBJECTS = {"text", 1, 2L, 'c', 3.5, new StringBuilder("b")};

    static long calls(long x) {
        for (int i = 0; i < 4000; i++) {
            x = OPERATORS[i % OPERATORS.length].applyAsLong(x) + OBJECTS[i % OBJECTS.length].toString().length();
        }
        return x;
    }

    /** Copies, hashes, locks, native methods, and a Java method that the JVM calls. */
    static long stubs(int round, long x) throws Exception {
        byte[] bytes = new byte[4096];
        for (int i = 0; i < 16; i++) {
            System.arraycopy(bytes, 7 * i, bytes, 1000, 2000);
            bytes[i] = (byte) x;
            CRC32 crc = new CRC32();
            crc.update(bytes);
            x += crc.getValue() + new String(bytes, "ISO-8859-1").indexOf('x') + Math.round(Math.sin(x));
            synchronized (OBJECTS) {
                x += OBJECTS.clone().length + (Thread.holdsLock(OBJECTS) ? 1 : 0);
            }
        }
        x += MessageDigest.getInstance("SHA-256").digest(bytes)[0];
        return x + (Long) Walked.class.getDeclaredMethod("called", long.class).invoke(null, x);
    }

    static long called(long x) {
        return compiled(x) + 1;
    }

    /** What {@link Copies} defines anew. */
    public interface Cold {
        long run(long x, int depth);
    }

    /** Runs in the interpreter, since it is a new class each time; its initialiser is called by the JVM. */
    public static final class Copy implements Cold {
        static long begun;

        static {
            begun = new Copy().run(7, 12);
        }

        @Override
        public long run(long x, int depth) {
            if (depth > 0) {
                return run(x + 1, depth - 1) * 3 + Long.toString(x).length();
            }
            for (int i = 0; i < 300; i++) {
                x = (x << 3) - x ^ i + OPERATORS[i % 2].applyAsLong(begun);
            }
            return x + called(x);
        }
    }

    /** Defines {@link Copy} anew. */
    static final class Copies extends ClassLoader {
        Copies() {
            super(Walked.class.getClassLoader());
        }

        Cold create() throws Exception {
            try (InputStream in = Walked.class.getResourceAsStream("Walked$Copy.class")) {
                byte[] bytes = in.readAllBytes();
                Class<?> copy = defineClass("Walked$Copy", bytes, 0, bytes.length);
                return (Cold) copy.getDeclaredConstructor().newInstance();
            }
        }
    }
}
