package walkfuzz.programs.antagonists;

import java.lang.invoke.MethodHandles;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Method;

import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Fresh;
import walkfuzz.programs.Moulds;
import walkfuzz.programs.Rng;
import walkfuzz.programs.Settings;
import walkfuzz.programs.Unsupported;

/** Classes without a name: hidden ones from JDK 15 on, the anonymous ones of {@code sun.misc.Unsafe} before. Reflection, since 11 has to run it. */
public final class HiddenClasses extends Antagonist {
    private static final int HIDDEN_SINCE = 15;
    private static final int BURST = 4;

    /** Makes a class from its bytes. */
    private interface Definer {
        Class<?> define(byte[] bytes) throws Exception;
    }

    private Definer definer;
    private volatile long sink;

    @Override
    protected void prepare(Settings settings) throws Exception {
        try {
            definer = Runtime.version().feature() >= HIDDEN_SINCE ? hidden() : anonymous();
        } catch (ReflectiveOperationException e) {
            throw new Unsupported("no hidden classes and no anonymous ones: " + e);
        }
    }

    @Override
    protected long operate(int thread, Rng rng) throws Exception {
        for (int i = 0; i < BURST; i++) {
            int stamp = (int) rng.next();
            Fresh fresh = (Fresh) definer.define(Moulds.stamped("Leaf", stamp)).getDeclaredConstructor().newInstance();
            require("number in the hidden class", stamp, fresh.stamp());
            sink += fresh.steady(2_000, stamp);
        }
        return BURST;
    }

    private static Definer hidden() throws ReflectiveOperationException {
        // A hidden class is of its host's package.
        MethodHandles.Lookup host = MethodHandles.privateLookupIn(Class.forName(Moulds.PACKAGE + "Leaf"), MethodHandles.lookup());
        Class<?> option = Class.forName("java.lang.invoke.MethodHandles$Lookup$ClassOption");
        Object options = Array.newInstance(option, 0);
        Method define = MethodHandles.Lookup.class.getMethod("defineHiddenClass", byte[].class, boolean.class, options.getClass());
        return bytes -> ((MethodHandles.Lookup) define.invoke(host, bytes, true, options)).lookupClass();
    }

    private static Definer anonymous() throws ReflectiveOperationException {
        Class<?> type = Class.forName("sun.misc.Unsafe");
        Field field = type.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Object unsafe = field.get(null);
        Class<?> host = Class.forName(Moulds.PACKAGE + "Leaf");
        Method define = type.getMethod("defineAnonymousClass", Class.class, byte[].class, Object[].class);
        return bytes -> (Class<?>) define.invoke(unsafe, host, bytes, null);
    }
}
