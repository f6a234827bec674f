package walkfuzz.programs.jdk;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.util.Random;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;

/** Digits of pi, Mersenne primes, modular powers: arithmetic whose results everybody knows. */
public final class BigIntegers implements Program {
    private static final String PI = "31415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679";
    private static final int[] MERSENNE = {89, 107, 127, 521};
    private static final int[] NOT_MERSENNE = {83, 97, 101, 131};

    @Override
    public void round(Rng rng, Checks checks) {
        String pi = pi(800);
        checks.same("pi", PI, pi.substring(0, PI.length()));
        // The six nines that begin at the 762nd decimal.
        checks.same("pi from decimal 762 on", "999999", pi.substring(762, 768));
        int which = rng.below(MERSENNE.length);
        checks.holds("a Mersenne prime", mersenne(MERSENNE[which]));
        checks.holds("no Mersenne prime", !mersenne(NOT_MERSENNE[which]));
        BigInteger prime = BigInteger.TWO.pow(521).subtract(BigInteger.ONE);
        BigInteger base = new BigInteger(500, new Random(rng.next())).add(BigInteger.TWO);
        checks.same("Fermat's little theorem", BigInteger.ONE, base.modPow(prime.subtract(BigInteger.ONE), prime));
        checks.same("inverse", BigInteger.ONE, base.modInverse(prime).multiply(base).mod(prime));
        BigInteger large = new BigInteger(4_000, new Random(rng.next())).setBit(4_000);
        BigInteger[] parts = large.pow(3).divideAndRemainder(large.add(BigInteger.ONE));
        checks.same("division", large.pow(3), parts[0].multiply(large.add(BigInteger.ONE)).add(parts[1]));
        checks.same("text there and back", large, new BigInteger(large.toString(7), 7));
        BigDecimal root = new BigDecimal(2).sqrt(new MathContext(60));
        checks.same("root of two", "1.41421356237309504880168872420969807856967187537694807317668", root.toString());
    }

    /** pi's digits by Machin's formula, without the point. */
    private static String pi(int digits) {
        BigInteger unit = BigInteger.TEN.pow(digits + 10);
        BigInteger quarter = arctan(5, unit).shiftLeft(2).subtract(arctan(239, unit));
        return quarter.shiftLeft(2).toString().substring(0, digits);
    }

    private static BigInteger arctan(int inverse, BigInteger unit) {
        BigInteger square = BigInteger.valueOf((long) inverse * inverse);
        BigInteger power = unit.divide(BigInteger.valueOf(inverse));
        BigInteger sum = power;
        for (int n = 3; power.signum() != 0; n += 2) {
            power = power.divide(square);
            BigInteger term = power.divide(BigInteger.valueOf(n));
            sum = n % 4 == 3 ? sum.subtract(term) : sum.add(term);
        }
        return sum;
    }

    /** Lucas and Lehmer's test of 2^p - 1. */
    private static boolean mersenne(int p) {
        BigInteger m = BigInteger.ONE.shiftLeft(p).subtract(BigInteger.ONE);
        BigInteger s = BigInteger.valueOf(4);
        for (int i = 0; i < p - 2; i++) {
            s = s.multiply(s).subtract(BigInteger.TWO).mod(m);
        }
        return s.signum() == 0;
    }
}
