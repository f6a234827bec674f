package walkfuzz.programs.jdk;

import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ForkJoinPool;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;
import walkfuzz.programs.Settings;

/** Parallel streams: primes, sums, groups, the longest Collatz sequence; all of them known. */
public final class Streams implements Program {
    private static final int PRIMES_BELOW = 30_000;
    private static final long PRIMES = 3_245;
    private static final int COLLATZ_BELOW = 10_000;
    private static final long COLLATZ_LONGEST = 6_171;
    private ForkJoinPool pool;

    @Override
    public void prepare(Settings settings) {
        pool = new ForkJoinPool(settings.threads);
    }

    @Override
    public int workers(Settings settings) {
        return 1;
    }

    @Override
    public void round(Rng rng, Checks checks) throws Exception {
        // A parallel stream runs in the pool whose thread begins it.
        checks.equal("primes below " + PRIMES_BELOW, PRIMES, inPool(() -> IntStream.range(2, PRIMES_BELOW).parallel().filter(Streams::prime).count()));
        long n = 10_000 + rng.below(20_000);
        checks.equal("sum of squares", n * (n + 1) * (2 * n + 1) / 6, inPool(() -> LongStream.rangeClosed(1, n).parallel().map(x -> x * x).sum()));
        Map<Integer, Long> groups = inPool(() -> IntStream.range(0, 9_000).boxed().parallel().collect(Collectors.groupingByConcurrent(x -> x % 9, Collectors.counting())));
        checks.equal("groups", 9, groups.size());
        checks.equal("smallest group", 1_000, groups.values().stream().mapToLong(Long::longValue).min().orElse(0));
        checks.equal("longest Collatz sequence", COLLATZ_LONGEST, inPool(() -> IntStream.range(1, COLLATZ_BELOW).parallel().boxed()
            .max((a, b) -> collatz(a) != collatz(b) ? Integer.compare(collatz(a), collatz(b)) : Integer.compare(b, a)).get().longValue()));
        String digits = inPool(() -> IntStream.range(0, 2_000).parallel().mapToObj(x -> String.valueOf(x % 10)).collect(Collectors.joining()));
        checks.holds("digits in order", digits.length() == 2_000 && digits.startsWith("0123456789012") && digits.endsWith("6789"));
    }

    private <T> T inPool(Callable<T> work) throws Exception {
        return pool.submit(work).get();
    }

    private static boolean prime(int x) {
        return x == 2 || x % 2 != 0 && IntStream.iterate(3, d -> d * d <= x, d -> d + 2).noneMatch(d -> x % d == 0);
    }

    private static int collatz(int from) {
        int steps = 0;
        for (long x = from; x != 1; x = x % 2 == 0 ? x / 2 : 3 * x + 1) {
            steps++;
        }
        return steps;
    }

    @Override
    public void close() {
        pool.shutdownNow();
    }
}
