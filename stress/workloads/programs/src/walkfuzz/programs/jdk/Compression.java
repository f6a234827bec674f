package walkfuzz.programs.jdk;

import java.security.MessageDigest;
import java.util.Random;
import java.util.zip.CRC32;
import java.util.zip.DataFormatException;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;

/** Compresses and hashes: round trips by zlib and by run lengths, digests whose values are published. */
public final class Compression implements Program {
    /** SHA-256 of a million times the letter a (FIPS 180-2, example B.3). */
    private static final String MILLION = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    private static final int SIZE = 60_000;

    @Override
    public void round(Rng rng, Checks checks) throws Exception {
        byte[] plain = text(rng);
        for (int level : new int[] {1, 6, 9}) {
            checks.equal("zlib level " + level, plain, inflate(deflate(plain, level), plain.length));
        }
        checks.equal("run lengths", plain, unpack(pack(plain)));
        CRC32 crc = new CRC32();
        crc.update(plain);
        checks.equal("CRC-32", crc32(plain), crc.getValue());
        if (rng.below(4) == 0) {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            byte[] letters = new byte[10_000];
            java.util.Arrays.fill(letters, (byte) 'a');
            for (int i = 0; i < 100; i++) {
                digest.update(letters);
            }
            checks.same("SHA-256", MILLION, hex(digest.digest()));
        }
        checks.same("SHA-1", "a9993e364706816aba3e25717850c26c9cd0d89d", hex(MessageDigest.getInstance("SHA-1").digest("abc".getBytes("US-ASCII"))));
    }

    /** Half words, half noise. */
    private static byte[] text(Rng rng) {
        String[] words = {"stack ", "frame ", "walker ", "signal ", "aaaaaaaaaa", "\n"};
        StringBuilder text = new StringBuilder();
        while (text.length() < SIZE / 2) {
            text.append(words[rng.below(words.length)]);
        }
        byte[] bytes = new byte[SIZE];
        new Random(rng.next()).nextBytes(bytes);
        for (int i = 0; i < text.length() && i < SIZE; i++) {
            bytes[i] = (byte) text.charAt(i);
        }
        return bytes;
    }

    private static byte[] deflate(byte[] plain, int level) {
        Deflater deflater = new Deflater(level);
        try {
            deflater.setInput(plain);
            deflater.finish();
            byte[] packed = new byte[plain.length * 2 + 100];
            return java.util.Arrays.copyOf(packed, deflater.deflate(packed));
        } finally {
            deflater.end();
        }
    }

    private static byte[] inflate(byte[] packed, int length) throws DataFormatException {
        Inflater inflater = new Inflater();
        try {
            inflater.setInput(packed);
            byte[] plain = new byte[length];
            int done = 0;
            while (done < length && !inflater.finished()) {
                done += inflater.inflate(plain, done, Math.min(4096, length - done));
            }
            return plain;
        } finally {
            inflater.end();
        }
    }

    private static byte[] pack(byte[] plain) {
        byte[] packed = new byte[plain.length * 2];
        int out = 0;
        for (int i = 0; i < plain.length;) {
            int run = 1;
            while (i + run < plain.length && run < 255 && plain[i + run] == plain[i]) {
                run++;
            }
            packed[out++] = (byte) run;
            packed[out++] = plain[i];
            i += run;
        }
        return java.util.Arrays.copyOf(packed, out);
    }

    private static byte[] unpack(byte[] packed) {
        byte[] plain = new byte[SIZE];
        int out = 0;
        for (int i = 0; i < packed.length; i += 2) {
            for (int n = packed[i] & 0xff; n > 0; n--) {
                plain[out++] = packed[i + 1];
            }
        }
        return plain;
    }

    /** The same without the JVM's intrinsic. */
    private static long crc32(byte[] bytes) {
        int crc = -1;
        for (byte b : bytes) {
            crc ^= b & 0xff;
            for (int bit = 0; bit < 8; bit++) {
                crc = (crc & 1) != 0 ? crc >>> 1 ^ 0xEDB88320 : crc >>> 1;
            }
        }
        return ~crc & 0xFFFFFFFFL;
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte b : bytes) {
            text.append(Character.forDigit(b >> 4 & 15, 16)).append(Character.forDigit(b & 15, 16));
        }
        return text.toString();
    }
}
