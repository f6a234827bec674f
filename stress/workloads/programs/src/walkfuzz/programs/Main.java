package walkfuzz.programs;

import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/**
 * Runs a program, with antagonists beside it, and says how it gets on: docs/workloads.md has the lines and the exit codes.
 */
public final class Main {
    private static final int USAGE = 2;
    private static final int UNSUPPORTED = 3;
    private static final int FAILED = 1;
    private static final int WRONG = 5;
    private static final long TELL_MILLIS = 200;
    /** An antagonist gets so much longer for its first operation: a JVM that only interprets, on a busy machine. */
    private static final long FIRST_OPERATION_NANOS = 60_000_000_000L;
    /** Not System.out: libraries may replace that. */
    private static final PrintStream OUT = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 8192), false);

    private Main() {
    }

    public static void main(String[] words) {
        int code;
        try {
            Arguments arguments = Arguments.parse(words);
            code = arguments.list ? list() : run(arguments);
        } catch (IllegalArgumentException e) {
            System.err.println("walkfuzz.programs: " + e.getMessage());
            System.err.println(Arguments.USAGE);
            code = USAGE;
        }
        OUT.flush();
        // Threads of libraries may live on.
        System.exit(code);
    }

    private static int list() {
        for (Catalogue.Entry entry : Catalogue.entries()) {
            OUT.printf(Locale.ROOT, "%-16s %-10s %d  %s%n", entry.name, entry.kind.name().toLowerCase(Locale.ROOT), entry.oldest, entry.meaning);
        }
        return 0;
    }

    private static int run(Arguments arguments) {
        Catalogue.Entry entry = named(arguments.name, false);
        Map<String, Antagonist> antagonists = new LinkedHashMap<>();
        Settings settings = new Settings(arguments.threads, arguments.seed);
        String at = entry.name;
        Rounds rounds = null;
        try {
            for (String name : arguments.with) {
                named(name, true);
            }
            for (String name : arguments.with) {
                at = name;
                antagonists.put(name, Catalogue.find(name).antagonist());
            }
            at = entry.name;
            try (Program program = entry.program()) {
                program.prepare(settings);
                for (Map.Entry<String, Antagonist> antagonist : antagonists.entrySet()) {
                    at = antagonist.getKey();
                    antagonist.getValue().start(at, settings);
                }
                at = entry.name;
                Plants.start(arguments.plant, OUT);
                rounds = new Rounds(program, arguments, settings);
                tell(rounds);
                rounds.run();
                for (Map.Entry<String, Antagonist> antagonist : antagonists.entrySet()) {
                    at = antagonist.getKey();
                    end(antagonist.getValue());
                    line("antagonist " + at + " " + antagonist.getValue().operations());
                }
                at = entry.name;
            }
            rounds.rethrow();
            for (Map.Entry<String, Antagonist> antagonist : antagonists.entrySet()) {
                at = antagonist.getKey();
                if (antagonist.getValue().failure() != null) {
                    throw antagonist.getValue().failure();
                }
                if (antagonist.getValue().operations() == 0) {
                    throw new WrongResult("expected operations got 0");
                }
            }
        } catch (Unsupported e) {
            line("unsupported " + at + ": " + e.getMessage());
            return UNSUPPORTED;
        } catch (IllegalArgumentException e) {
            throw e;
        } catch (Throwable e) {
            return failed(at, e);
        }
        line(String.format(Locale.ROOT, "done rounds=%d checks=%d seconds=%.2f", rounds.done(), rounds.checks(), rounds.seconds()));
        return 0;
    }

    private static Catalogue.Entry named(String name, boolean antagonist) {
        Catalogue.Entry entry = Catalogue.find(name);
        if (entry == null) {
            throw new IllegalArgumentException("nothing is called " + name + "; --list shows what there is");
        }
        if (antagonist != (entry.kind == Catalogue.Kind.ANTAGONIST)) {
            throw new IllegalArgumentException(antagonist ? name + " is no antagonist" : name + " is an antagonist: give it to a program, --with " + name);
        }
        return entry;
    }

    private static void end(Antagonist antagonist) throws InterruptedException {
        long began = System.nanoTime();
        while (antagonist.operations() == 0 && antagonist.failure() == null && System.nanoTime() - began < FIRST_OPERATION_NANOS) {
            Thread.sleep(10);
        }
        antagonist.stop();
    }

    /** A wrong result, unless the JVM was short of something. */
    private static int failed(String name, Throwable failure) {
        failure.printStackTrace();
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (lacksOfJdk(cause)) {
                line("unsupported " + name + ": this runtime has no module with " + cause.getMessage());
                return UNSUPPORTED;
            }
            if (cause instanceof WrongResult) {
                line("wrong " + name + ": " + cause.getMessage());
                return WRONG;
            }
            if (cause instanceof VirtualMachineError) {
                System.err.println("walkfuzz.programs: " + name + " failed: " + cause);
                return FAILED;
            }
        }
        line("wrong " + name + ": expected a result got " + String.valueOf(failure).replace('\n', ' '));
        return WRONG;
    }

    /** Runtimes are made with fewer modules than a JDK has. */
    private static boolean lacksOfJdk(Throwable failure) {
        String missing = String.valueOf(failure.getMessage()).replace('/', '.');
        return (failure instanceof NoClassDefFoundError || failure instanceof ClassNotFoundException)
                && missing.matches("(java|javax|jdk|sun|com\\.sun)\\.[\\w.$]+");
    }

    private static void tell(Rounds rounds) {
        Thread teller = new Thread(() -> {
            long said = 0;
            while (true) {
                try {
                    Thread.sleep(TELL_MILLIS);
                } catch (InterruptedException e) {
                    return;
                }
                long progress = rounds.progress();
                if (progress > said) {
                    said = progress;
                    line("progress " + said);
                }
            }
        }, "walkfuzz-progress");
        teller.setDaemon(true);
        teller.start();
    }

    private static void line(String text) {
        // One piece, whatever other threads write.
        synchronized (OUT) {
            OUT.print("walkfuzz: " + text + "\n");
            OUT.flush();
        }
    }
}
