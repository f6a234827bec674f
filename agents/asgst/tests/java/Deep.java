import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.TreeMap;

/** Works on deep stacks for so many milliseconds of its own CPU time: recursion, inlining, generics, native methods that call back. */
public final class Deep {
    static int sink;

    /** Signatures with generics, lines far apart. */
    static <T extends Comparable<T>> List<T> sorted(List<T> list) {



        List<T> copy = new ArrayList<>(list);
        Collections.sort(copy);
        return copy;
    }

    static int recurse(int depth) throws Exception {
        return depth == 0 ? work() : recurse(depth - 1) + 1;
    }

    static int work() throws Exception {
        int sum = 0;
        TreeMap<Integer, String> map = new TreeMap<>();
        for (int i = 0; i < 300; i++) {
            map.put(i * 31 % 97, Integer.toString(i));
        }
        for (String value : map.values()) {
            sum += value.hashCode();
        }
        return sum + sorted(Arrays.asList(3, 1, 2)).size();
    }

    /** Native code between Java frames: reflection is native at first, and class initialisers always are. */
    public static int reflected(int depth) throws Exception {
        return recurse(depth);
    }

    public static void main(String[] words) throws Exception {
        ThreadMXBean clock = ManagementFactory.getThreadMXBean();
        long end = clock.getCurrentThreadCpuTime() + Long.parseLong(words[0]) * 1_000_000;
        Method method = Deep.class.getMethod("reflected", int.class);
        while (clock.getCurrentThreadCpuTime() < end) {
            sink += (int) method.invoke(null, 20);
            sink += recurse(40);
        }
        if (words.length > 1) {
            unload(words[1]);
        }
        System.out.println("done");
    }

    /** Loads a class apart, and lets it be unloaded. */
    static void unload(String folder) throws Exception {
        for (int i = 0; i < 20; i++) {
            try (URLClassLoader loader =
                    new URLClassLoader(new URL[] {new URL("file:" + folder + "/")}, null)) {
                Class<?> apart = loader.loadClass("Apart");
                sink += (int) apart.getMethod("answer").invoke(null);
            }
            System.gc();
        }
        Thread.sleep(50);
    }
}
