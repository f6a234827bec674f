import java.util.Arrays;

/** Speaks as the harnesses of Renaissance (--raw-list, --run-seconds S NAME) and DaCapo (-l, -n N NAME) do. */
public final class Suite {
    private static final String[] NAMES = {
        "finagle-http", "wrong", "stuck", "throws", "never", "lusearch", "invalid",
    };
    private static volatile long sum;

    public static void main(String[] words) throws Exception {
        if (words[0].equals("--raw-list") || words[0].equals("-l")) {
            System.out.println(String.join(words[0].equals("-l") ? " " : "\n", NAMES));
            return;
        }
        String name = words[words.length - 1];
        if (words[0].equals("-n")) {
            dacapo(name, Integer.parseInt(words[1]));
        } else {
            renaissance(name, Long.parseLong(words[Arrays.asList(words).indexOf("--run-seconds") + 1]));
        }
    }

    private static void renaissance(String name, long seconds) throws Exception {
        long began = System.nanoTime();
        for (int n = 0; n < 2 || System.nanoTime() - began < seconds * 1_000_000_000L; n++) {
            String prefix = "====== " + name + " (dummy) [default], iteration " + n;
            System.out.println(prefix + " started ======");
            work(300);
            if (name.equals("stuck") && n == 1) {
                Thread.sleep(600_000);
            }
            String cause = name.equals("wrong") && n == 1 ? "ValidationException"
                : name.equals("throws") && n == 1 || name.equals("never") ? "NullPointerException" : null;
            if (cause != null) {
                System.out.println(prefix + " failed (" + cause + ") ======");
                System.err.println("Benchmark '" + name + "' failed "
                    + (name.equals("wrong") ? "result validation:\nexpected 4 but got 5"
                        : "with exception:\njava.lang.NullPointerException: gone\n\tat Suite.main"));
                System.out.println("The following benchmarks failed: " + name);
                System.exit(1);
            }
            System.out.println(prefix + " completed (300.123 ms) ======");
        }
    }

    private static void dacapo(String name, int rounds) {
        boolean valid = !name.equals("invalid");
        for (int n = 1; n <= rounds; n++) {
            String prefix = "===== DaCapo 23.11 " + name;
            String warmup = n < rounds ? "warmup " + n + " " : "";
            System.err.println(prefix + " starting " + warmup + "=====");
            work(300);
            System.err.println(prefix + (!valid ? " FAILED " + (n < rounds ? "warmup " : "")
                : (n < rounds ? " completed " + warmup : " PASSED ") + "in 300 msec ") + "=====");
        }
        if (!valid) {
            System.err.println("Validation FAILED for " + name + " default");
            System.exit(-2);
        }
    }

    private static void work(long millis) {
        long began = System.nanoTime();
        while (System.nanoTime() - began < millis * 1_000_000L) {
            for (int i = 0; i < 10_000; i++) {
                sum += i % 7;
            }
        }
    }
}
