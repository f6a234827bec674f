package walkfuzz.frames;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/**
 * Continuations run by the worker itself, so that their entry frames, yields, lazily thawed frames and return barriers are on
 * a platform thread's stack. Needs a JVM that has them and
 * {@code --add-exports java.base/jdk.internal.vm=ALL-UNNAMED}.
 */
final class Continuations implements Work {
    private static final MethodHandle CREATE;
    private static final MethodHandle RUN;
    private static final MethodHandle YIELD;
    private static final MethodHandle DONE;
    private static final Object SCOPE;

    static {
        MethodHandle create = null;
        MethodHandle run = null;
        MethodHandle yield = null;
        MethodHandle done = null;
        Object scope = null;
        try {
            MethodHandles.Lookup lookup = MethodHandles.lookup();
            Class<?> scopes = Class.forName("jdk.internal.vm.ContinuationScope");
            Class<?> type = Class.forName("jdk.internal.vm.Continuation");
            scope = scopes.getConstructor(String.class).newInstance("walkfuzz");
            create = lookup.findConstructor(type, MethodType.methodType(void.class, scopes, Runnable.class))
                    .asType(MethodType.methodType(Object.class, Object.class, Runnable.class));
            run = lookup.findVirtual(type, "run", MethodType.methodType(void.class))
                    .asType(MethodType.methodType(void.class, Object.class));
            yield = lookup.findStatic(type, "yield", MethodType.methodType(boolean.class, scopes))
                    .asType(MethodType.methodType(boolean.class, Object.class));
            done = lookup.findVirtual(type, "isDone", MethodType.methodType(boolean.class))
                    .asType(MethodType.methodType(boolean.class, Object.class));
        } catch (ReflectiveOperationException | LinkageError e) {
            scope = null;
        }
        CREATE = create;
        RUN = run;
        YIELD = yield;
        DONE = done;
        SCOPE = scope;
    }

    private long sum;

    @Override
    public String name() {
        return "continuations";
    }

    @Override
    public boolean present() {
        return SCOPE != null;
    }

    @Override
    public long slice(Rng rng) throws Throwable {
        sum = 0;
        for (int i = 0; i < 6; i++) {
            int depth = 5 + rng.below(60);
            long x = rng.next();
            Object continuation = CREATE.invokeExact(SCOPE, (Runnable) () -> sum += descend(depth, x));
            for (int yields = 0; !(boolean) DONE.invokeExact(continuation); yields++) {
                RUN.invokeExact(continuation);
                sum += yields;
            }
        }
        return sum;
    }

    /** Yields at the bottom and on the way back, so that frames are frozen and thawed in small numbers. */
    private static long descend(int depth, long x) {
        long inner = depth == 0 ? work(x) : descend(depth - 1, x + depth);
        if (depth % 16 == 0) {
            pause();
        }
        return inner * 31 + depth;
    }

    private static long work(long x) {
        long sum = x;
        for (int i = 0; i < 1000; i++) {
            sum = Long.rotateLeft(sum, 3) ^ i;
        }
        return sum;
    }

    private static void pause() {
        try {
            if (!(boolean) YIELD.invokeExact(SCOPE)) {
                throw new IllegalStateException("the continuation was pinned");
            }
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }
}
