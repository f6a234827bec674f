package walkfuzz.programs.antagonists;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Random;
import java.util.zip.Deflater;

import jdk.jfr.FlightRecorder;
import jdk.jfr.Recording;

import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Rng;
import walkfuzz.programs.Settings;
import walkfuzz.programs.Unsupported;

/**
 * Flight recordings that start, dump and stop every few milliseconds, while threads that JFR samples burn CPU time and end. That is when JFR makes and frees
 * what its samplers work with (JDK-8392187).
 */
public final class JfrChurn extends Antagonist {
    /** In which jdk.CPUTimeSample came. */
    private static final int CPU_TIME = 25;
    /** More than cores: a timer's signal waits while its thread does, and is pending when the recording stops. */
    private static final int BURST = 8;
    private volatile long sink;
    private Recordings recordings;

    @Override
    protected void prepare(Settings settings) throws Exception {
        if (ModuleLayer.boot().findModule("jdk.jfr").isEmpty()) {
            throw new Unsupported("this runtime has no module jdk.jfr");
        }
        recordings = new Recordings();
    }

    @Override
    protected int threads() {
        return 2;
    }

    @Override
    protected long operate(int thread, Rng rng) throws Exception {
        if (thread == 0) {
            recordings.one(rng);
            return 1;
        }
        Thread[] burst = new Thread[BURST];
        for (int i = 0; i < BURST; i++) {
            int rounds = 100_000 << rng.below(6);
            // A safepoint, at which JFR frees what its handlers use, does not stop threads in native code.
            burst[i] = new Thread(i % 2 == 0 ? () -> burn(rounds) : () -> deflate(rounds), "walkfuzz-burn");
            burst[i].setDaemon(true);
            burst[i].start();
        }
        for (Thread started : burst) {
            started.join();
        }
        return 0;
    }

    private void burn(int rounds) {
        long value = rounds;
        for (int i = 0; i < rounds; i++) {
            value = value * 6364136223846793005L + 1442695040888963407L;
        }
        sink += value;
    }

    private void deflate(int rounds) {
        byte[] input = new byte[16 << 10];
        byte[] output = new byte[32 << 10];
        new Random(rounds).nextBytes(input);
        Deflater deflater = new Deflater(Deflater.BEST_COMPRESSION);
        try {
            for (int done = 0; done < rounds; done += 100_000) {
                deflater.reset();
                deflater.setInput(input);
                deflater.finish();
                sink += deflater.deflate(output);
            }
        } finally {
            deflater.end();
        }
    }

    /** What needs the module: loaded where it is there. */
    private static final class Recordings {
        private static final int SIGPROF = 27;
        private final boolean cpuTime;

        Recordings() throws Exception {
            if (!FlightRecorder.isAvailable()) {
                throw new Unsupported("this JVM has no flight recorder");
            }
            cpuTime = Runtime.version().feature() >= CPU_TIME && (!isCaught(SIGPROF) || isOurs());
        }

        void one(Rng rng) throws Exception {
            try (Recording recording = new Recording()) {
                recording.enable("jdk.ExecutionSample").withPeriod(Duration.ofMillis(1));
                recording.enable("jdk.NativeMethodSample").withPeriod(Duration.ofMillis(1));
                recording.enable("jdk.ThreadEnd");
                if (cpuTime) {
                    recording.enable("jdk.CPUTimeSample").with("throttle", "1ms");
                }
                recording.setToDisk(rng.below(2) == 0);
                recording.start();
                Thread.sleep(rng.below(12));
                if (rng.below(8) == 0) {
                    dump(recording);
                }
                recording.stop();
            }
        }

        private static void dump(Recording recording) throws Exception {
            Path file = Files.createTempFile("walkfuzz-", ".jfr");
            try {
                recording.dump(file);
                byte[] start = new byte[4];
                int read;
                try (var stream = Files.newInputStream(file)) {
                    read = stream.readNBytes(start, 0, start.length);
                }
                // "FLR" and a zero.
                require("bytes of a recording's head", start.length, read);
                require("head of a recording", 0x464C5200, (start[0] & 255) << 24 | (start[1] & 255) << 16 | (start[2] & 255) << 8 | start[3] & 255);
            } finally {
                Files.deleteIfExists(file);
            }
        }

        /** Whether this process has a handler for it. JFR would put its own in place of another profiler's, and take that one's signals for its own. */
        private static boolean isCaught(int signal) throws Exception {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith("SigCgt:")) {
                    return (Long.parseUnsignedLong(line.substring(7).trim(), 16) >>> (signal - 1) & 1) != 0;
                }
            }
            return true;
        }

        /** Whether JFR samples by CPU time already. */
        private static boolean isOurs() {
            if (!FlightRecorder.isInitialized()) {
                return false;
            }
            return FlightRecorder.getFlightRecorder().getRecordings().stream().anyMatch(one -> "true".equals(one.getSettings().get("jdk.CPUTimeSample#enabled")));
        }
    }
}
