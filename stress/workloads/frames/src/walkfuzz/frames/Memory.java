package walkfuzz.frames;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.atomic.LongAdder;

/** Allocation in all its ways, collections, atomics and the barriers they need. */
final class Memory {
    private Memory() {
    }

    static final class Allocation implements Work {
        private final Object[] kept = new Object[64];

        @Override
        public String name() {
            return "allocation";
        }

        @Override
        public long slice(Rng rng) {
            long sum = 0;
            for (int i = 0; i < 150; i++) {
                int n = rng.below(64);
                Object[] node = {kept[n], new byte[n * 8], new long[2][n & 7]};
                node[0] = null;
                kept[n] = node;
                sum += node.length + ((byte[]) node[1]).length + ((long[][]) node[2])[1].length;
            }
            kept[rng.below(64)] = new int[40_000];
            kept[rng.below(64)] = new WeakReference<>(new Object());
            return sum;
        }
    }

    static final class Collections implements Work {
        @Override
        public String name() {
            return "collections";
        }

        @Override
        public long slice(Rng rng) {
            Map<Integer, Long> hash = new HashMap<>();
            Map<String, Integer> tree = new TreeMap<>(Comparator.comparing(String::length).thenComparing(Comparator.naturalOrder()));
            List<Long> list = new ArrayList<>();
            for (int i = 0; i < 60; i++) {
                long x = rng.below(500);
                hash.merge((int) x, 1L, Long::sum);
                tree.put(Long.toString(x), i);
                list.add(x);
            }
            list.sort((a, b) -> Long.compare(b, a));
            long sum = list.get(3) + tree.size();
            for (Map.Entry<Integer, Long> entry : hash.entrySet()) {
                sum += entry.getKey() * entry.getValue();
            }
            for (String key : tree.keySet()) {
                sum = sum * 31 + key.length();
            }
            return sum;
        }
    }

    static final class Atomics implements Work {
        private final AtomicLong counter = new AtomicLong();
        private final LongAdder adder = new LongAdder();
        private final AtomicReferenceArray<String> references = new AtomicReferenceArray<>(8);
        private final ConcurrentHashMap<Integer, String> map = new ConcurrentHashMap<>();

        @Override
        public String name() {
            return "atomics";
        }

        @Override
        public long slice(Rng rng) {
            int seed = rng.below(1000);
            for (int i = 0; i < 150; i++) {
                counter.accumulateAndGet(i + seed, (a, b) -> a * 3 + b);
                adder.add(i);
                references.getAndSet(i & 7, "v");
                map.computeIfAbsent(i & 127, k -> "value");
                map.compute(i & 63, (k, v) -> v == null ? "new" : null);
            }
            return counter.get() + adder.sum() + map.size() + references.length();
        }
    }
}
