package walkfuzz.frames;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.function.IntFunction;
import java.util.function.LongUnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/** Calls that are bound late: vtable and itable stubs, lambdas, method handles, reflection. */
final class Calls {
    private Calls() {
    }

    /** Called through the vtable; the subclasses' getters are trivial, so they stay in C1's code. */
    abstract static class Shape {
        abstract long area(long x);

        long twice(long x) {
            return area(x) + area(x + 1);
        }
    }

    static final class A extends Shape {
        @Override
        long area(long x) {
            return x;
        }
    }

    static final class B extends Shape {
        @Override
        long area(long x) {
            return x * x;
        }
    }

    static final class C extends Shape {
        @Override
        long area(long x) {
            return x << 2;
        }
    }

    static class D extends Shape {
        @Override
        long area(long x) {
            return 7;
        }
    }

    static final class E extends D {
        @Override
        long area(long x) {
            return super.area(x) - x;
        }
    }

    /** Called through the itable. */
    interface Op {
        long apply(long x);

        default long twice(long x) {
            return apply(apply(x));
        }
    }

    static final class Add implements Op, Comparable<Add> {
        @Override
        public long apply(long x) {
            return x + 1;
        }

        @Override
        public int compareTo(Add other) {
            return 0;
        }
    }

    static final class Mul implements Runnable, Op {
        @Override
        public long apply(long x) {
            return x * 3;
        }

        @Override
        public void run() {
        }
    }

    static final class Xor implements Op {
        @Override
        public long apply(long x) {
            return x ^ 0x55;
        }

        @Override
        public long twice(long x) {
            return x;
        }
    }

    static final class Not implements Op {
        @Override
        public long apply(long x) {
            return ~x;
        }
    }

    private static final Shape[] SHAPES = {new A(), new B(), new C(), new D(), new E()};
    private static final Op[] OPS = {new Add(), new Mul(), new Xor(), new Not()};

    static Shape shape(int i) {
        return SHAPES[i % SHAPES.length];
    }

    static Op op(int i) {
        return OPS[i % OPS.length];
    }

    static final class Virtual implements Work {
        @Override
        public String name() {
            return "virtual-calls";
        }

        @Override
        public long slice(Rng rng) {
            long sum = rng.next();
            for (int i = 0; i < 2500; i++) {
                sum += shape(i).area(i) + shape(i + 3).twice(sum);
            }
            return sum;
        }
    }

    static final class Interface implements Work {
        @Override
        public String name() {
            return "interface-calls";
        }

        @Override
        public long slice(Rng rng) {
            long sum = rng.next();
            for (int i = 0; i < 2500; i++) {
                sum += op(i).apply(sum) + op(i + 1).twice(i);
            }
            return sum;
        }
    }

    static final class Lambdas implements Work {
        @Override
        public String name() {
            return "lambdas";
        }

        @Override
        public long slice(Rng rng) {
            long base = rng.below(1000);
            LongUnaryOperator chain = x -> x + base;
            for (int i = 0; i < 6; i++) {
                int n = i;
                chain = chain.andThen(x -> x * 3 + n).compose(x -> x ^ base);
            }
            IntFunction<String> text = Integer::toHexString;
            long sum = 0;
            for (int i = 0; i < 60; i++) {
                sum += chain.applyAsLong(i) + text.apply(i).length();
            }
            sum += LongStream.range(0, 300).filter(x -> (x & 3) != base % 4).map(x -> x * base).sum();
            sum += IntStream.range(0, 60).mapToObj(text).sorted().mapToInt(String::length).reduce(0, (a, b) -> a * 3 + b);
            return sum;
        }
    }

    /** Constant handles are compiled in; the others run through lambda forms and their interpreter. */
    static final class Handles implements Work {
        private static final MethodHandle CONSTANT;
        private static final VarHandle LONGS = MethodHandles.arrayElementVarHandle(long[].class);
        private final long[] cells = new long[8];
        private MethodHandle built;
        private int uses;

        static {
            try {
                MethodType type = MethodType.methodType(long.class, long.class, int.class);
                CONSTANT = MethodHandles.lookup().findStatic(Compiled.class, "chain", type);
            } catch (ReflectiveOperationException e) {
                throw new ExceptionInInitializerError(e);
            }
        }

        @Override
        public String name() {
            return "method-handles";
        }

        @Override
        public long slice(Rng rng) throws Throwable {
            long x = rng.next();
            if (built == null || ++uses % 64 == 0) {
                build(rng.below(100));
            }
            for (int i = 0; i < 80; i++) {
                x += (long) CONSTANT.invokeExact(x, i) + (long) built.invokeExact(x);
                LONGS.getAndAdd(cells, i & 7, x);
                LONGS.compareAndSet(cells, i & 7, 0L, x);
            }
            Object boxed = built.invokeWithArguments(x);
            return x + (Long) boxed + (long) LONGS.getVolatile(cells, 3);
        }

        private void build(int argument) throws ReflectiveOperationException {
            MethodHandles.Lookup lookup = MethodHandles.lookup();
            MethodType unary = MethodType.methodType(long.class, long.class);
            MethodHandle chain = MethodHandles.insertArguments(CONSTANT, 1, argument);
            MethodHandle apply = lookup.findVirtual(Op.class, "apply", unary).bindTo(op(argument));
            MethodHandle even = lookup.findStatic(Handles.class, "even", MethodType.methodType(boolean.class, long.class));
            MethodHandle fails = lookup.findStatic(Handles.class, "fail", unary);
            MethodHandle catches = MethodHandles.dropArguments(MethodHandles.constant(long.class, 5L), 0, Exception.class);
            MethodHandle caught = MethodHandles.catchException(fails, Exception.class, catches);
            built = MethodHandles.guardWithTest(even, MethodHandles.filterReturnValue(chain, apply), caught);
        }

        @SuppressWarnings("unused") // by a method handle
        private static boolean even(long x) {
            return (x & 1) == 0;
        }

        @SuppressWarnings("unused") // by a method handle
        private static long fail(long x) throws Exception {
            if ((x & 30) == 0) {
                throw new Exception("sometimes");
            }
            return x >> 1;
        }
    }

    static final class Reflected implements Work {
        private Method method;
        private Constructor<A> constructor;
        private Comparable<Object> proxy;
        private int uses;

        @Override
        public String name() {
            return "reflection";
        }

        @Override
        @SuppressWarnings("unchecked")
        public long slice(Rng rng) throws Throwable {
            if (uses++ % 50 == 0) {
                // A new Method object begins with the native accessor again, until it is inflated.
                method = Calls.class.getDeclaredMethod("target", long.class, Object.class);
                constructor = A.class.getDeclaredConstructor();
                InvocationHandler handler = (self, called, arguments) -> arguments == null ? 0 : arguments[0].hashCode();
                proxy = (Comparable<Object>) Proxy.newProxyInstance(
                        Calls.class.getClassLoader(), new Class<?>[] {Comparable.class}, handler);
            }
            long sum = rng.below(1000);
            for (int i = 0; i < 40; i++) {
                sum += (Long) method.invoke(null, sum, "argument");
                sum += constructor.newInstance().area(i) + proxy.compareTo("other");
                sum += ((long[]) java.lang.reflect.Array.newInstance(long.class, 3)).length;
            }
            return sum;
        }
    }

    static long target(long x, Object o) {
        return x * 31 + o.hashCode();
    }
}
