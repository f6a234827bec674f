package walkfuzz.frames;

import java.io.File;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** Native methods of the JDK: wrappers, transitions, and native code under Java frames. */
final class Natives {
    private Natives() {
    }

    static final class Calls implements Work {
        @Override
        public String name() {
            return "native-methods";
        }

        @Override
        public long slice(Rng rng) {
            long sum = rng.below(1000);
            long varying = 0;
            for (int i = 0; i < 30; i++) {
                varying += new Object().hashCode() + System.nanoTime() + Runtime.getRuntime().freeMemory();
                sum += ("text" + (i & 3)).intern().length();
                sum += Thread.holdsLock(this) ? 1 : 0;
                sum += this.getClass().getModifiers();
            }
            varying += Thread.currentThread().getStackTrace().length;
            sum += StackWalker.getInstance().walk(frames -> frames.filter(f -> f.getMethodName().equals("slice")).count());
            sum += new Throwable().getStackTrace().length > 0 ? 1 : 0;
            Thread.yield();
            Frames.sink += varying;
            return sum;
        }
    }

    static final class Files implements Work {
        private final byte[] plain = new byte[1500];
        private final byte[] packed = new byte[2000];

        @Override
        public String name() {
            return "native-libraries";
        }

        @Override
        public long slice(Rng rng) throws Exception {
            int seed = rng.below(100);
            for (int i = 0; i < plain.length; i++) {
                plain[i] = (byte) (i % (seed + 3));
            }
            long sum = new File("no such file").exists() ? 1 : 2;
            Deflater deflater = new Deflater(1);
            Inflater inflater = new Inflater();
            try {
                deflater.setInput(plain);
                deflater.finish();
                int length = deflater.deflate(packed);
                inflater.setInput(packed, 0, length);
                sum += inflater.inflate(plain);
            } finally {
                deflater.end();
                inflater.end();
            }
            return sum + plain[700];
        }
    }
}
