package walkfuzz.programs.jdk;

import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedTransferQueue;
import java.util.concurrent.atomic.AtomicLong;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;
import walkfuzz.programs.Settings;

/** Producers and consumers on queues, counts in concurrent maps, chains of futures: what goes in must come out. */
public final class Concurrent implements Program {
    private static final int TOKENS = 2_000;
    private ExecutorService pool;
    private int pairs;

    @Override
    public void prepare(Settings settings) {
        pairs = Math.max(1, settings.threads / 2);
        // A consumer that waits for a producer must not hold the last thread.
        pool = Executors.newFixedThreadPool(2 * pairs);
    }

    @Override
    public int workers(Settings settings) {
        return 1;
    }

    @Override
    public void round(Rng rng, Checks checks) throws Exception {
        long expected = (long) pairs * TOKENS * (TOKENS + 1) / 2;
        checks.equal("tokens through an array queue", expected, through(new ArrayBlockingQueue<>(16)));
        checks.equal("tokens through a transfer queue", expected, through(new LinkedTransferQueue<>()));
        ConcurrentHashMap<Integer, Long> counts = new ConcurrentHashMap<>();
        ConcurrentSkipListMap<Integer, Integer> sorted = new ConcurrentSkipListMap<>();
        Queue<Integer> seen = new ConcurrentLinkedQueue<>();
        AtomicLong ticket = new AtomicLong();
        int keys = 10 + rng.below(50);
        all(2 * pairs, thread -> {
            for (long i = ticket.getAndIncrement(); i < TOKENS; i = ticket.getAndIncrement()) {
                int key = (int) (i % keys);
                counts.merge(key, 1L, Long::sum);
                sorted.put((int) i, thread);
                seen.add(key);
            }
            return 0L;
        });
        checks.equal("counts", TOKENS, counts.values().stream().mapToLong(Long::longValue).sum());
        checks.equal("keys", keys, counts.size());
        checks.equal("tokens in a queue", TOKENS, seen.size());
        checks.holds("keys in order", sorted.size() == TOKENS && sorted.firstKey() == 0 && sorted.lastKey() == TOKENS - 1);
        CompletableFuture<Long> chain = CompletableFuture.completedFuture(0L);
        for (int i = 1; i <= 100; i++) {
            long step = i;
            chain = chain.thenApplyAsync(sum -> sum + step, pool);
        }
        checks.equal("a chain of futures", 5_050, chain.get());
    }

    private interface Body {
        long run(int thread) throws Exception;
    }

    private long all(int threads, Body body) throws Exception {
        List<Callable<Long>> tasks = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            int thread = i;
            tasks.add(() -> body.run(thread));
        }
        long sum = 0;
        for (Future<Long> done : pool.invokeAll(tasks)) {
            sum += done.get();
        }
        return sum;
    }

    private long through(BlockingQueue<Integer> queue) throws Exception {
        return all(2 * pairs, thread -> {
            long sum = 0;
            for (int token = 1; token <= TOKENS; token++) {
                if (thread % 2 == 0) {
                    queue.put(token);
                } else {
                    sum += queue.take();
                }
            }
            return sum;
        });
    }

    @Override
    public void close() {
        pool.shutdownNow();
    }
}
