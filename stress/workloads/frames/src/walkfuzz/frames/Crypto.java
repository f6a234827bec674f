package walkfuzz.frames;

import java.math.BigInteger;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** Digests, ciphers and big numbers, which have stubs of their own on most CPUs. */
final class Crypto {
    private Crypto() {
    }

    static final class Digests implements Work {
        private static final String[] NAMES = {"MD5", "SHA-1", "SHA-256", "SHA-512", "SHA3-256"};
        private final byte[] data = new byte[1024];
        private final MessageDigest[] digests = new MessageDigest[NAMES.length];

        @Override
        public String name() {
            return "digests";
        }

        @Override
        public long slice(Rng rng) throws GeneralSecurityException {
            int which = rng.below(NAMES.length);
            if (digests[which] == null) {
                digests[which] = MessageDigest.getInstance(NAMES[which]);
            }
            long sum = 0;
            for (int i = 0; i < 4; i++) {
                data[i] = (byte) rng.next();
                digests[which].update(data, 0, 800 + i);
                byte[] digest = digests[which].digest();
                sum = sum * 31 + digest[0] + digest[digest.length - 1];
            }
            return sum;
        }
    }

    static final class Ciphers implements Work {
        private static final String[] NAMES = {"AES/CBC/PKCS5Padding", "AES/CTR/NoPadding", "AES/ECB/NoPadding", "AES/GCM/NoPadding"};
        private final byte[] data = new byte[1024];
        private final Cipher[] ciphers = new Cipher[NAMES.length];
        private final SecretKeySpec key = new SecretKeySpec(new byte[16], "AES");
        private Mac mac;
        private long nonce;

        @Override
        public String name() {
            return "ciphers";
        }

        @Override
        public long slice(Rng rng) throws GeneralSecurityException {
            int which = rng.below(NAMES.length);
            if (ciphers[which] == null) {
                ciphers[which] = Cipher.getInstance(NAMES[which]);
            }
            if (mac == null) {
                mac = Mac.getInstance("HmacSHA256");
            }
            Cipher cipher = ciphers[which];
            long sum = 0;
            for (int i = 0; i < 2; i++) {
                // GCM refuses a nonce that it has seen with the same key.
                byte[] iv = new byte[which == 3 ? 12 : 16];
                nonce++;
                for (int b = 0; b < 8; b++) {
                    iv[b] = (byte) (nonce >> (8 * b));
                }
                init(cipher, which, Cipher.ENCRYPT_MODE, iv);
                byte[] hidden = cipher.doFinal(data);
                init(cipher, which, Cipher.DECRYPT_MODE, iv);
                byte[] back = cipher.doFinal(hidden);
                data[i] = (byte) rng.next();
                sum = sum * 31 + hidden[7] + back[i];
            }
            mac.init(key);
            return sum + mac.doFinal(data)[0];
        }

        private void init(Cipher cipher, int which, int mode, byte[] iv) throws GeneralSecurityException {
            if (which == 2) {
                cipher.init(mode, key);
            } else if (which == 3) {
                cipher.init(mode, key, new GCMParameterSpec(128, iv));
            } else {
                cipher.init(mode, key, new IvParameterSpec(iv));
            }
        }
    }

    static final class BigNumbers implements Work {
        private static final BigInteger MODULUS = BigInteger.ONE.shiftLeft(521).subtract(BigInteger.ONE);

        @Override
        public String name() {
            return "big-numbers";
        }

        @Override
        public long slice(Rng rng) {
            BigInteger x = BigInteger.valueOf(rng.next() | 1).abs();
            for (int i = 0; i < 6; i++) {
                x = x.multiply(x).add(BigInteger.valueOf(i));
            }
            BigInteger power = x.modPow(BigInteger.valueOf(0x10001), MODULUS);
            return x.shiftRight(13).longValue() + power.longValue() + x.mod(MODULUS).bitCount();
        }
    }
}
