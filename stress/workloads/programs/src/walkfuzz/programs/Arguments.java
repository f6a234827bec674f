package walkfuzz.programs;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The command line. */
final class Arguments {
    static final String USAGE = "usage: Main NAME [--with ANTAGONIST,...] [--seconds N | --rounds N] [--threads T] [--seed S], or Main --list";
    private static final double DEFAULT_SECONDS = 10;

    /** Mistakes that tests ask for; not in the usage line. */
    enum Plant {
        NONE,
        /** A wrong result. */
        WRONG,
        /** All workers stand still for good, in a deadlock. */
        HANG,
        /** Standard output without end. */
        FLOOD,
        /** A child process of the same group that lives on. */
        FORK,
        /** A child process that leaves the group and lives on. */
        DAEMON
    }

    boolean list;
    String name;
    final List<String> with = new ArrayList<>();
    double seconds = DEFAULT_SECONDS;
    long rounds = Long.MAX_VALUE;
    int threads = Math.max(2, Runtime.getRuntime().availableProcessors());
    long seed = 1;
    Plant plant = Plant.NONE;

    /** Throws IllegalArgumentException, whose message says what is wrong. */
    static Arguments parse(String[] words) {
        Arguments parsed = new Arguments();
        boolean limited = false;
        for (int i = 0; i < words.length; i++) {
            String word = words[i];
            if (word.equals("--list")) {
                parsed.list = true;
            } else if (word.startsWith("--")) {
                if (++i == words.length) {
                    throw new IllegalArgumentException(word + " needs a value");
                }
                limited |= word.equals("--seconds");
                if (word.equals("--rounds") && !limited) {
                    parsed.seconds = Double.MAX_VALUE;
                }
                parsed.option(word, words[i]);
            } else if (parsed.name == null) {
                parsed.name = word;
            } else {
                throw new IllegalArgumentException("one name, not " + parsed.name + " and " + word);
            }
        }
        if (parsed.name == null && !parsed.list) {
            throw new IllegalArgumentException("which program? Main --list shows them");
        }
        return parsed;
    }

    private void option(String name, String value) {
        try {
            switch (name) {
                case "--with":
                    with.addAll(Arrays.asList(value.split(",")));
                    break;
                case "--seconds":
                    seconds = positive(Double.parseDouble(value));
                    break;
                case "--rounds":
                    rounds = (long) positive(Long.parseLong(value));
                    break;
                case "--threads":
                    threads = (int) positive(Integer.parseInt(value));
                    break;
                case "--seed":
                    seed = Long.parseLong(value);
                    break;
                case "--plant":
                    plant = Plant.valueOf(value.toUpperCase(java.util.Locale.ROOT));
                    break;
                default:
                    throw new IllegalArgumentException("no such option: " + name);
            }
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(name + " needs a positive number, not " + value);
        }
    }

    private static double positive(double value) {
        if (!(value > 0)) {
            throw new NumberFormatException();
        }
        return value;
    }
}
