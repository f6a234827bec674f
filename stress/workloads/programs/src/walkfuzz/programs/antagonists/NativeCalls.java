package walkfuzz.programs.antagonists;

import java.lang.invoke.MethodHandles;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Method;
import java.net.NetworkInterface;

import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Fresh;
import walkfuzz.programs.Moulds;
import walkfuzz.programs.Rng;

/**
 * Ping-pong between Java and native code without a library of ours. Native methods of the JDK that call back into Java:
 * {@code Class.forName0} asks a loader of ours, which asks {@code forName0} again, several times over; class initialisers run below
 * native code; {@code NetworkInterface} makes its objects through JNI's NewObject; thread infos are made by the VM; a fresh
 * {@code Method} is called by its native accessor (where the JVM has one).
 */
public final class NativeCalls extends Antagonist {
    private static final int DEPTH = 8;
    private static final String PING = "walkfuzz.ping.";
    private int turn;

    /** Goes from Java to native code and back once for each level. */
    private static final class Ping extends ClassLoader {
        private final int[] asked;

        Ping(int[] asked) {
            super(NativeCalls.class.getClassLoader());
            this.asked = asked;
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith(PING)) {
                return super.loadClass(name, resolve);
            }
            asked[0]++;
            int level = Integer.parseInt(name.substring(PING.length()));
            if (level > 1) {
                load(level - 1, asked);
            }
            throw new ClassNotFoundException(name);
        }

        static void load(int level, int[] asked) {
            try {
                Class.forName(PING + level, false, new Ping(asked));
            } catch (ClassNotFoundException e) {
                // There is none: the way there and back is all that was wanted.
            }
        }
    }

    public static long pong(long x) {
        return x + 1;
    }

    @Override
    protected long operate(int thread, Rng rng) throws Exception {
        long done = 0;
        int[] asked = new int[1];
        for (int i = 0; i < 10; i++) {
            Ping.load(DEPTH, asked);
        }
        require("calls from native code", 10 * DEPTH, asked[0]);
        done += asked[0];
        Fresh fresh = (Fresh) Class.forName(Moulds.PACKAGE + "Leaf", true, new Moulds.Loader()).getDeclaredConstructor().newInstance();
        require("number in the class file", Moulds.STAMP, fresh.stamp());
        done++;
        Method pong = NativeCalls.class.getMethod("pong", long.class);
        long x = rng.below(1000);
        require("result of a reflected call", x + 1, (Long) pong.invoke(null, x));
        require("result of a bound call", x + 1, handle(x));
        done += 2;
        if (turn++ % 16 == 0) {
            // Lists threads and makes an info of each.
            done += ManagementFactory.getThreadMXBean().dumpAllThreads(false, false).length;
            done += NetworkInterface.getNetworkInterfaces() == null ? 0 : 1;
        }
        return done;
    }

    private static long handle(long x) throws Exception {
        try {
            return (long) MethodHandles.lookup().unreflect(NativeCalls.class.getMethod("pong", long.class)).invokeExact(x);
        } catch (Exception e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }
}
