import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Crashes its JVM in the way that the first argument names. See scripts/crash-jdks. */
public final class Crash {
    interface Shape { long area(long n); }
    static final class Square implements Shape { public long area(long n) { return n * n; } }
    static final class Line implements Shape { public long area(long n) { return n; } }

    static native void inNative(String how);
    static native void startWalks(int seed);

    static sun.misc.Unsafe unsafe() throws Exception {
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return (sun.misc.Unsafe) field.get(null);
    }

    /** Wild write after `depth` calls. */
    static long poke(sun.misc.Unsafe unsafe, long address, int depth) {
        if (depth > 0) return poke(unsafe, address, depth - 1) + 1;
        unsafe.putLong(address, 42);
        return 0;
    }

    static long work(int rounds) {
        Map<Integer, Long> map = new HashMap<>();
        Shape[] shapes = {new Square(), new Line()};
        long sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum += shapes[i & 1].area(i) + fib(8);
            map.merge(i & 63, sum, Long::sum);
            if ((i & 1023) == 0) sum += new byte[1 << 12].length + String.valueOf(i).hashCode();
        }
        return sum + map.size();
    }

    static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

    static void busy() {
        long sum = 0;
        for (;;) sum += work(10_000);
    }

    public static void main(String[] arguments) throws Exception {
        String how = arguments[0];
        switch (how) {
            case "busy":
                System.out.println("busy");
                System.out.flush();
                busy();
                break;
            case "unsafe":
                poke(unsafe(), 0, 3);
                break;
            case "compiled": {
                // Compiled first, with an address that is good.
                sun.misc.Unsafe unsafe = unsafe();
                long good = unsafe.allocateMemory(8);
                for (int i = 0; i < 200_000; i++) poke(unsafe, good, 3);
                poke(unsafe, 8, 3);
                break;
            }
            case "java-oom": {
                List<Object> kept = new ArrayList<>();
                for (;;) kept.add(new long[1 << 16]);
            }
            case "walk":
                System.load(System.getProperty("crash.library"));
                work(20_000);
                startWalks(Integer.parseInt(arguments[1]));
                busy();
                break;
            default:
                System.load(System.getProperty("crash.library"));
                inNative(how);
        }
    }
}
