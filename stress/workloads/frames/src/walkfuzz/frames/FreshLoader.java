package walkfuzz.frames;

import java.io.IOException;
import java.io.InputStream;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Defines the classes of package {@code walkfuzz.frames.fresh} anew instead of asking its parent: cold code, fresh profiles, new
 * nmethods, and everything is unloaded when the loader dies.
 */
final class FreshLoader extends ClassLoader {
    private static final String PACKAGE = "walkfuzz.frames.fresh.";
    private static final ConcurrentHashMap<String, byte[]> BYTES = new ConcurrentHashMap<>();

    FreshLoader() {
        super(FreshLoader.class.getClassLoader());
    }

    /** An instance of a class of the package, defined by this loader. */
    Fresh create(String name) throws ReflectiveOperationException {
        return (Fresh) loadClass(PACKAGE + name).getDeclaredConstructor().newInstance();
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        if (!name.startsWith(PACKAGE)) {
            return super.loadClass(name, resolve);
        }
        synchronized (getClassLoadingLock(name)) {
            Class<?> loaded = findLoadedClass(name);
            if (loaded == null) {
                byte[] bytes = bytes(name);
                loaded = defineClass(name, bytes, 0, bytes.length);
            }
            return loaded;
        }
    }

    private static byte[] bytes(String name) throws ClassNotFoundException {
        byte[] bytes = BYTES.get(name);
        if (bytes == null) {
            String file = "/" + name.replace('.', '/') + ".class";
            try (InputStream in = FreshLoader.class.getResourceAsStream(file)) {
                if (in == null) {
                    throw new ClassNotFoundException(name);
                }
                bytes = in.readAllBytes();
            } catch (IOException e) {
                throw new ClassNotFoundException(name, e);
            }
            BYTES.put(name, bytes);
        }
        return bytes;
    }
}
