package walkfuzz.programs;

import java.io.IOException;
import java.io.InputStream;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The class files of package {@code walkfuzz.programs.fresh}, to be defined again and again. */
public final class Moulds {
    public static final String PACKAGE = "walkfuzz.programs.fresh.";
    /** The constant that {@link #stamped} replaces. */
    public static final int STAMP = 0x57414C4B;
    private static final byte CONSTANT_INTEGER = 3;
    private static final Map<String, byte[]> BYTES = new ConcurrentHashMap<>();

    private Moulds() {
    }

    /** The class file of a class of the package. */
    public static byte[] bytes(String simpleName) {
        return BYTES.computeIfAbsent(simpleName, Moulds::read);
    }

    /** A class file with another number in the place of {@link #STAMP}. */
    public static byte[] stamped(String simpleName, int stamp) {
        byte[] bytes = bytes(simpleName).clone();
        for (int at = 0; at + 4 < bytes.length; at++) {
            if (bytes[at] == CONSTANT_INTEGER && integer(bytes, at + 1) == STAMP) {
                for (int i = 0; i < 4; i++) {
                    bytes[at + 1 + i] = (byte) (stamp >>> (24 - 8 * i));
                }
                return bytes;
            }
        }
        throw new IllegalStateException(simpleName + " holds no stamp");
    }

    private static int integer(byte[] bytes, int at) {
        return bytes[at] << 24 | (bytes[at + 1] & 0xff) << 16 | (bytes[at + 2] & 0xff) << 8 | bytes[at + 3] & 0xff;
    }

    private static byte[] read(String simpleName) {
        String file = "/" + PACKAGE.replace('.', '/') + simpleName + ".class";
        try (InputStream in = Moulds.class.getResourceAsStream(file)) {
            return in.readAllBytes();
        } catch (IOException e) {
            throw new IllegalStateException(file, e);
        }
    }

    /** Defines the package's classes anew instead of asking its parent; all is unloaded when the loader dies. */
    public static final class Loader extends ClassLoader {
        public Loader() {
            super(Moulds.class.getClassLoader());
        }

        /** An instance of a class of the package, defined by this loader. */
        public Fresh create(String simpleName) throws ReflectiveOperationException {
            return (Fresh) loadClass(PACKAGE + simpleName).getDeclaredConstructor().newInstance();
        }

        /** The same with a stamp. */
        public Fresh create(String simpleName, int stamp) throws ReflectiveOperationException {
            byte[] bytes = stamped(simpleName, stamp);
            return (Fresh) defineClass(PACKAGE + simpleName, bytes, 0, bytes.length).getDeclaredConstructor().newInstance();
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith(PACKAGE)) {
                return super.loadClass(name, resolve);
            }
            synchronized (getClassLoadingLock(name)) {
                Class<?> loaded = findLoadedClass(name);
                if (loaded == null) {
                    byte[] bytes = bytes(name.substring(PACKAGE.length()));
                    loaded = defineClass(name, bytes, 0, bytes.length);
                }
                return loaded;
            }
        }
    }
}
