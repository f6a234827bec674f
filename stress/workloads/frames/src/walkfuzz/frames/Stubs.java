package walkfuzz.frames;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.zip.Adler32;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;

/** Work that compilers replace by stub routines and intrinsics: copies, strings, checksums, mathematics. */
final class Stubs {
    private Stubs() {
    }

    static final class Copies implements Work {
        private final byte[] bytes = new byte[4096];
        private final char[] chars = new char[2048];
        private final int[] ints = new int[2048];
        private final long[] longs = new long[1024];
        private final Object[] objects = new Object[512];
        private final String[] strings = new String[512];

        Copies() {
            Arrays.fill(objects, "text");
        }

        @Override
        public String name() {
            return "array-copies";
        }

        @Override
        public long slice(Rng rng) {
            long sum = 0;
            for (int i = 0; i < 8; i++) {
                int n = 1 + rng.below(500);
                System.arraycopy(bytes, 0, bytes, n, 3000);
                System.arraycopy(bytes, n, bytes, 0, 3000);
                System.arraycopy(chars, 0, chars, n, n);
                System.arraycopy(ints, n, ints, n / 2, n);
                System.arraycopy(longs, 0, longs, 512, n);
                System.arraycopy(objects, 0, objects, 1, n);
                System.arraycopy(objects, 0, strings, 0, n);
                bytes[n] = (byte) n;
                ints[n]++;
                longs[n] += n;
                sum += ints.clone()[n] + longs[512] + Arrays.copyOf(bytes, n * 2)[n] + Arrays.hashCode(bytes);
                sum += Arrays.mismatch(chars, new char[n]) + (Arrays.equals(strings, objects) ? 1 : 0);
            }
            objects[300] = 1;
            try {
                System.arraycopy(objects, 0, strings, 0, 512);
            } catch (ArrayStoreException e) {
                sum++;
            }
            objects[300] = "text";
            Arrays.fill(ints, 3);
            Arrays.fill(bytes, (byte) 5);
            return sum;
        }
    }

    static final class Strings implements Work {
        @Override
        public String name() {
            return "strings";
        }

        @Override
        public long slice(Rng rng) {
            String latin = "the quick brown fox jumps over the lazy dog ".repeat(4) + rng.below(1000);
            String wide = latin.replace('q', '\u0416') + "\u00e9";
            long sum = 0;
            for (int i = 0; i < 3; i++) {
                String other = latin.substring(0, 100 + i) + "x";
                sum += latin.equals(other) ? 1 : 0;
                sum += latin.compareTo(other) + wide.compareTo(other) + latin.compareToIgnoreCase(wide);
                sum += latin.indexOf("lazy dog t", i) + wide.indexOf("dog the") + latin.lastIndexOf('q') + wide.indexOf('\u0416');
                sum += other.hashCode() + wide.toUpperCase(java.util.Locale.ROOT).length();
                sum += new String(wide.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8).length();
                sum += other.getBytes(StandardCharsets.ISO_8859_1).length + other.toCharArray()[i];
                sum += new StringBuilder(other).append(i).append(2.5).append(wide).reverse().indexOf("x");
            }
            sum += latin.split(" ").length + (latin.matches(".*l[a-z]{2}y.*d.g.*") ? 1 : 0);
            return sum + String.format("%05d %s %x", sum & 0xFFF, "s", 255).hashCode();
        }
    }

    static final class Checksums implements Work {
        private final byte[] data = new byte[3000];
        private final ByteBuffer direct = ByteBuffer.allocateDirect(3000);

        @Override
        public String name() {
            return "checksums";
        }

        @Override
        public long slice(Rng rng) {
            long sum = 0;
            for (int i = 0; i < 3; i++) {
                data[i * 200] = (byte) rng.next();
                direct.clear();
                direct.put(data).flip();
                CRC32 crc = new CRC32();
                crc.update(data, i, 2900);
                crc.update(direct);
                CRC32C crc32c = new CRC32C();
                crc32c.update(data, i, 2900);
                Adler32 adler = new Adler32();
                adler.update(data, i, 2900);
                sum += crc.getValue() + crc32c.getValue() * 3 + adler.getValue() * 7 + direct.getLong(i);
                byte[] text = Base64.getEncoder().encode(data);
                sum += Base64.getDecoder().decode(text).length + text[i];
            }
            return sum;
        }
    }

    static final class Maths implements Work {
        @Override
        public String name() {
            return "maths";
        }

        @Override
        public long slice(Rng rng) {
            double x = rng.below(1000) / 100.0 + 0.1;
            long sum = 0;
            double d = 0;
            for (int i = 1; i < 200; i++) {
                d += Math.sin(x * i) + Math.cos(x) + Math.tan(x) + Math.exp(-x) + Math.log(x * i) + Math.log10(x + i)
                        + Math.pow(x, 0.3) + Math.sqrt(i) + Math.cbrt(x) + Math.atan2(x, i) + Math.fma(x, i, 1.0) % 7;
                sum += Math.multiplyHigh(i * 0x123456789L, ~sum) + Long.numberOfLeadingZeros(sum) + Integer.bitCount(i)
                        + Math.floorMod(sum, i) + Integer.reverseBytes(i) + Math.round(d) + Math.abs(i - 100);
                try {
                    sum += Math.multiplyExact(i, 20_000_000);
                } catch (ArithmeticException e) {
                    sum++;
                }
            }
            return sum + Math.round(Double.parseDouble("1.25e3")) + Long.parseLong(Long.toString(sum, 36), 36);
        }
    }
}
