package walkfuzz.programs.libraries;

import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import dotty.tools.dotc.Main;
import dotty.tools.dotc.interfaces.AbstractFile;
import dotty.tools.dotc.interfaces.CompilerCallback;
import dotty.tools.dotc.interfaces.Diagnostic;
import dotty.tools.dotc.interfaces.ReporterResult;
import dotty.tools.dotc.interfaces.SimpleReporter;
import dotty.tools.dotc.interfaces.SourceFile;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;
import walkfuzz.programs.Settings;

/** Compiles a Scala 3 source (enums, givens, extension methods, pattern matching) again and again, loads the result and calls it. */
public final class ScalaCompiler implements Program {
    private static final int CLASSES_AT_LEAST = 10;
    private Path folder;
    private String source;
    private final AtomicInteger number = new AtomicInteger();

    @Override
    public void prepare(Settings settings) throws Exception {
        folder = Files.createTempDirectory("walkfuzz-scala");
        try (InputStream in = ScalaCompiler.class.getResourceAsStream("/Expressions.scala.txt")) {
            source = new String(in.readAllBytes(), "UTF-8");
        }
    }

    @Override
    public void round(Rng rng, Checks checks) throws Exception {
        Path own = Files.createDirectory(folder.resolve("round" + number.getAndIncrement()));
        try {
            int factor = rng.below(1000);
            Path file = own.resolve("Expressions.scala");
            // Another source each time: no result of an earlier round may do.
            Files.write(file, source.replace("FACTOR", Integer.toString(factor)).getBytes("UTF-8"));
            StringBuilder errors = new StringBuilder();
            AtomicInteger classes = new AtomicInteger();
            SimpleReporter reporter = diagnostic -> errors.append(diagnostic.level() == Diagnostic.ERROR ? diagnostic.message() : "");
            ReporterResult result = Main.process(new String[] {"-usejavacp", "-d", own.toString(), file.toString()}, reporter, new CompilerCallback() {
                @Override
                public void onClassGenerated(SourceFile from, AbstractFile to, String name) {
                    classes.incrementAndGet();
                    checks.piece();
                }
            });
            checks.same("errors of the compiler", "", errors.toString());
            checks.holds("compiles", !result.hasErrors());
            checks.holds("classes made: " + classes, classes.get() >= CLASSES_AT_LEAST);
            try (URLClassLoader loader = new URLClassLoader(new URL[] {own.toUri().toURL()}, ScalaCompiler.class.getClassLoader())) {
                Object answer = loader.loadClass("expressions.Answer").getMethod("answer", int.class).invoke(null, 7);
                checks.same("answer of the compiled program", "((7 + 2) * FACTOR) = ".replace("FACTOR", "" + factor) + 9 * factor, answer);
            }
        } finally {
            delete(own);
        }
    }

    private static void delete(Path folder) throws Exception {
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path path : files.sorted(Comparator.reverseOrder()).collect(Collectors.toList())) {
                Files.delete(path);
            }
        }
    }

    @Override
    public void close() throws Exception {
        delete(folder);
    }
}
