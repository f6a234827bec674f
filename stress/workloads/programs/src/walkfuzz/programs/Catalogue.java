package walkfuzz.programs;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.Supplier;

import walkfuzz.programs.antagonists.Allocation;
import walkfuzz.programs.antagonists.ClassLoading;
import walkfuzz.programs.antagonists.CodeCache;
import walkfuzz.programs.antagonists.Collect;
import walkfuzz.programs.antagonists.Contention;
import walkfuzz.programs.antagonists.Deoptimise;
import walkfuzz.programs.antagonists.Exceptions;
import walkfuzz.programs.antagonists.HiddenClasses;
import walkfuzz.programs.antagonists.JfrChurn;
import walkfuzz.programs.antagonists.Megamorphic;
import walkfuzz.programs.antagonists.NativeCalls;
import walkfuzz.programs.antagonists.Recursion;
import walkfuzz.programs.antagonists.Redefinition;
import walkfuzz.programs.antagonists.ThreadChurn;
import walkfuzz.programs.antagonists.VirtualThreads;
import walkfuzz.programs.jdk.BigIntegers;
import walkfuzz.programs.jdk.Compression;
import walkfuzz.programs.jdk.Concurrent;
import walkfuzz.programs.jdk.Interpreter;
import walkfuzz.programs.jdk.Queens;
import walkfuzz.programs.jdk.Sorting;
import walkfuzz.programs.jdk.Steady;
import walkfuzz.programs.jdk.Streams;
import walkfuzz.programs.jdk.Text;

/** All that can be run, by name. */
final class Catalogue {
    /** What an entry is. */
    enum Kind {
        /** Needs the JDK alone. */
        PROGRAM,
        /** Disturbs a program. */
        ANTAGONIST,
        /** Needs the jars of a library. */
        LIBRARY
    }

    /** A name and what it stands for. */
    static final class Entry {
        final String name;
        final Kind kind;
        /** The oldest JDK, by feature release. */
        final int oldest;
        final String meaning;
        private final Supplier<?> maker;
        private final String className;

        private Entry(String name, Kind kind, int oldest, String meaning, Supplier<?> maker, String className) {
            this.name = name;
            this.kind = kind;
            this.oldest = oldest;
            this.meaning = meaning;
            this.maker = maker;
            this.className = className;
        }

        Program program() throws Exception {
            demandRelease();
            if (kind == Kind.PROGRAM) {
                return (Program) maker.get();
            }
            try {
                return (Program) Class.forName(className).getDeclaredConstructor().newInstance();
            } catch (ClassNotFoundException | NoClassDefFoundError e) {
                throw new Unsupported("not on the class path: " + e.getMessage() + "; scripts/get-libraries " + name + " brings its jars and prints what to add");
            }
        }

        Antagonist antagonist() throws Unsupported {
            demandRelease();
            return (Antagonist) maker.get();
        }

        private void demandRelease() throws Unsupported {
            int feature = Runtime.version().feature();
            if (feature < oldest) {
                throw new Unsupported("needs JDK " + oldest + " or newer, this is " + feature);
            }
        }
    }

    private static final List<Entry> ENTRIES = new ArrayList<>();

    private Catalogue() {
    }

    static List<Entry> entries() {
        return Collections.unmodifiableList(ENTRIES);
    }

    /** The entry of that name, or null. */
    static Entry find(String name) {
        return ENTRIES.stream().filter(entry -> entry.name.equals(name)).findFirst().orElse(null);
    }

    private static void program(String name, String meaning, Supplier<Program> maker) {
        ENTRIES.add(new Entry(name, Kind.PROGRAM, 11, meaning, maker, null));
    }

    private static void antagonist(String name, int oldest, String meaning, Supplier<Antagonist> maker) {
        ENTRIES.add(new Entry(name, Kind.ANTAGONIST, oldest, meaning, maker, null));
    }

    private static void library(String name, int oldest, String meaning, String className) {
        ENTRIES.add(new Entry(name, Kind.LIBRARY, oldest, meaning, null, "walkfuzz.programs.libraries." + className));
    }

    static {
        program("queens", "N queens by fork and join", Queens::new);
        program("streams", "primes, groups and sequences by parallel streams", Streams::new);
        program("interpreter", "a stack machine and a tree of functions run programs", Interpreter::new);
        program("compression", "zlib, run lengths, checksums and digests", Compression::new);
        program("sorting", "the same numbers sorted in six ways", Sorting::new);
        program("text", "a log written, then searched by regular expressions", Text::new);
        program("big-integers", "pi, Mersenne primes, modular powers", BigIntegers::new);
        program("concurrent", "queues, concurrent maps, chains of futures", Concurrent::new);
        program("steady", "the same calls in each round, for measurements", Steady::new);

        antagonist("deoptimise", 11, "hot code meets what it did not bet on", Deoptimise::new);
        antagonist("class-loading", 11, "classes are defined, used and unloaded", ClassLoading::new);
        antagonist("hidden-classes", 11, "hidden classes (before 15: anonymous ones)", HiddenClasses::new);
        antagonist("redefinition", 11, "a class is redefined while it runs; -javaagent:programs.jar spares a second JVM that attaches", Redefinition::new);
        antagonist("thread-churn", 11, "threads start and end", ThreadChurn::new);
        antagonist("virtual-threads", 21, "virtual threads yield, park, get pinned and end", VirtualThreads::new);
        antagonist("exceptions", 11, "explicit and implicit exceptions from some depth", Exceptions::new);
        antagonist("allocation", 11, "garbage of all sizes", Allocation::new);
        antagonist("native-calls", 11, "native methods of the JDK that call back into Java", NativeCalls::new);
        antagonist("recursion", 11, "deep and mutual recursion, stack overflows", Recursion::new);
        antagonist("megamorphic", 11, "call sites with two dozen receivers", Megamorphic::new);
        antagonist("contention", 11, "fights for monitors and locks", Contention::new);
        antagonist("code-cache", 11, "more compiled code than is used", CodeCache::new);
        antagonist("collect", 11, "full collections on demand", Collect::new);
        antagonist("jfr-churn", 11, "flight recordings start, dump and stop while threads end", JfrChurn::new);

        library("finagle-http", 11, "an HTTP server and its clients on finagle", "FinagleHttp");
        library("actors", 11, "an unbalanced tree counted by Pekko actors", "Actors");
        library("scala-compiler", 11, "the Scala 3 compiler compiles a source", "ScalaCompiler");
        library("spark", 11, "page rank and SQL on Spark, in one process", "Spark");
        library("rx", 11, "words scored by RxJava streams", "Rx");
        library("h2", 11, "accounts in an embedded H2 database and in its MVStore", "H2");
        library("philosophers", 11, "dining philosophers on ScalaSTM", "Philosophers");
        library("genetic", 11, "a genetic algorithm on Jenetics", "Genetic");
    }
}
