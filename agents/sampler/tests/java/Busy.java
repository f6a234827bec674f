import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Work for the sampler's tests: {@code Busy SECONDS KIND...}, each kind a thread: {@code spin} computes, {@code sleep} waits, {@code collect} collects
 * garbage, {@code threads} starts threads that end at once, {@code processes} starts programs, {@code leave} soon ends the JVM while the others are at work. It ends when the process
 * has used so much CPU time, however long that takes on a busy machine, and prints what it did: {@code done KIND N}.
 */
public final class Busy {
    private static volatile boolean over;
    private static volatile long sink;

    private static long tree(int depth, long seed) {
        if (depth == 0) {
            return seed * 0x9E3779B97F4A7C15L >>> 7;
        }
        return tree(depth - 1, seed + depth) ^ tree(depth - 1, seed * 31);
    }

    private static long spin(long round) {
        Map<Long, String> map = new HashMap<>();
        for (long i = 0; i < 64; i++) {
            map.put(i * round, "x" + i);
        }
        return tree(10, round) + map.size();
    }

    private static void once(String kind, long round) throws Exception {
        switch (kind) {
            case "spin":
                sink += spin(round);
                break;
            case "sleep":
                Thread.sleep(20);
                break;
            case "collect":
                System.gc();
                break;
            case "threads":
                Thread thread = new Thread(() -> sink += spin(round));
                thread.start();
                thread.join();
                break;
            case "leave":
                Thread.sleep(1500);
                System.exit(0);
                break;
            case "processes":
                if (new ProcessBuilder("/bin/true").start().waitFor() != 0) {
                    throw new IllegalStateException("the program failed");
                }
                break;
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private static long cpuMillis() {
        return ProcessHandle.current().info().totalCpuDuration().orElseThrow().toMillis();
    }

    public static void main(String[] arguments) throws Exception {
        List<Thread> threads = new ArrayList<>();
        Map<Thread, AtomicLong> rounds = new HashMap<>();
        for (int i = 1; i < arguments.length; i++) {
            String kind = arguments[i];
            AtomicLong count = new AtomicLong();
            Thread thread = new Thread(() -> {
                try {
                    for (long round = 1; !over; round++) {
                        once(kind, round);
                        count.incrementAndGet();
                    }
                } catch (Exception e) {
                    e.printStackTrace();
                    System.exit(9);
                }
            }, kind);
            rounds.put(thread, count);
            threads.add(thread);
        }
        threads.forEach(Thread::start);
        System.out.println("ready");
        System.out.flush();
        long end = cpuMillis() + (long) (Double.parseDouble(arguments[0]) * 1000);
        while (cpuMillis() < end) {
            Thread.sleep(10);
        }
        over = true;
        for (Thread thread : threads) {
            thread.join();
            System.out.println("done " + thread.getName() + " " + rounds.get(thread));
        }
    }
}
