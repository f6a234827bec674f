package walkfuzz.programs;

import java.nio.file.Path;
import java.time.Instant;
import java.util.HashSet;
import java.util.Set;
import java.util.TreeMap;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordedStackTrace;
import jdk.jfr.consumer.RecordedThread;
import jdk.jfr.consumer.RecordingFile;

/**
 * Counts the samples of flight recordings: {@code java -cp programs.jar walkfuzz.programs.Recording FILE...}.
 *
 * <p>Prints {@code walkfuzz: samples EVENT all=N frames=N failed=N biased=N truncated=N repeated=N} for each kind of sample,
 * {@code walkfuzz: depth UP_TO N} for depths by powers of two, {@code walkfuzz: lost N} and {@code walkfuzz: data-loss BYTES}.
 * A sample is repeated if its thread has one of the same kind from the same nanosecond.
 * A file that ends too early counts as far as it goes, with a line {@code walkfuzz: cut FILE: reason}; exit code 3 if no file could be read.
 */
public final class Recording {
    private Recording() {
    }

    private static final class Samples {
        long all;
        long frames;
        long failed;
        long biased;
        long truncated;
        long repeated;
        final Set<Long> moments = new HashSet<>();
    }

    public static void main(String[] files) {
        TreeMap<String, Samples> kinds = new TreeMap<>();
        TreeMap<Integer, Long> depths = new TreeMap<>();
        long lost = 0;
        long dataLoss = 0;
        int read = 0;
        for (String file : files) {
            try (RecordingFile recording = new RecordingFile(Path.of(file))) {
                read++;
                while (recording.hasMoreEvents()) {
                    RecordedEvent event = recording.readEvent();
                    String name = event.getEventType().getName();
                    switch (name) {
                        case "jdk.ExecutionSample":
                        case "jdk.NativeMethodSample":
                        case "jdk.CPUTimeSample":
                            count(event, kinds.computeIfAbsent(name, any -> new Samples()), depths);
                            break;
                        case "jdk.CPUTimeSamplesLost":
                            lost += event.getLong("lostSamples");
                            break;
                        case "jdk.DataLoss":
                            dataLoss += event.getLong("amount");
                            break;
                        default:
                    }
                }
            } catch (Exception e) {
                System.out.println("walkfuzz: cut " + file + ": " + e);
            }
        }
        kinds.forEach((name, n) -> System.out.println("walkfuzz: samples " + name + " all=" + n.all + " frames=" + n.frames + " failed="
            + n.failed + " biased=" + n.biased + " truncated=" + n.truncated + " repeated=" + n.repeated));
        depths.forEach((upTo, n) -> System.out.println("walkfuzz: depth " + upTo + " " + n));
        System.out.println("walkfuzz: lost " + lost);
        System.out.println("walkfuzz: data-loss " + dataLoss);
        System.exit(read > 0 ? 0 : 3);
    }

    private static void count(RecordedEvent event, Samples samples, TreeMap<Integer, Long> depths) {
        samples.all++;
        if (event.hasField("failed") && event.getBoolean("failed")) {
            samples.failed++;
        }
        if (event.hasField("biased") && event.getBoolean("biased")) {
            samples.biased++;
        }
        if (!samples.moments.add(moment(event))) {
            samples.repeated++;
        }
        RecordedStackTrace trace = event.getStackTrace();
        if (trace == null || trace.getFrames().isEmpty()) {
            return;
        }
        samples.frames++;
        if (trace.isTruncated()) {
            samples.truncated++;
        }
        int depth = trace.getFrames().size();
        depths.merge(Math.max(1, Integer.highestOneBit(Math.max(depth - 1, 1)) * (depth > 1 ? 2 : 1)), 1L, Long::sum);
    }

    /** Names the nanosecond and the thread. */
    private static long moment(RecordedEvent event) {
        Instant start = event.getStartTime();
        RecordedThread thread = event.getThread(event.hasField("sampledThread") ? "sampledThread" : "eventThread");
        long who = thread == null ? 0 : thread.getOSThreadId();
        return (start.getEpochSecond() * 1_000_000_000L + start.getNano()) * 4_194_301L + who;
    }
}
