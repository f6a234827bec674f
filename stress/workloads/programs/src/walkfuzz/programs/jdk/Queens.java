package walkfuzz.programs.jdk;

import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RecursiveTask;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;
import walkfuzz.programs.Settings;

/** Counts the ways to place N queens by fork and join; the counts are well known. */
public final class Queens implements Program {
    private static final int SMALLEST = 7;
    private static final long[] KNOWN = {40, 92, 352, 724};
    private ForkJoinPool pool;

    @Override
    public void prepare(Settings settings) {
        pool = new ForkJoinPool(settings.threads);
    }

    @Override
    public int workers(Settings settings) {
        return 1;
    }

    @Override
    public void round(Rng rng, Checks checks) {
        int which = rng.below(KNOWN.length);
        int size = SMALLEST + which;
        checks.equal(size + " queens", KNOWN[which], pool.invoke(new Place(size, 0, 0, 0, 0)));
    }

    @Override
    public void close() {
        pool.shutdownNow();
    }

    /** One row: columns and both diagonals under attack as bits. */
    private static final class Place extends RecursiveTask<Long> {
        private static final long serialVersionUID = 1;
        private static final int FORK_ROWS = 3;
        private final int size;
        private final int row;
        private final int columns;
        private final int left;
        private final int right;

        Place(int size, int row, int columns, int left, int right) {
            this.size = size;
            this.row = row;
            this.columns = columns;
            this.left = left;
            this.right = right;
        }

        @Override
        protected Long compute() {
            if (row >= FORK_ROWS) {
                return count((1 << size) - 1, columns, left, right);
            }
            Place[] tasks = new Place[size];
            int made = 0;
            for (int free = ~(columns | left | right) & (1 << size) - 1; free != 0; free &= free - 1) {
                int bit = free & -free;
                Place task = new Place(size, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1);
                task.fork();
                tasks[made++] = task;
            }
            long sum = 0;
            while (made > 0) {
                sum += tasks[--made].join();
            }
            return sum;
        }

        private static long count(int all, int columns, int left, int right) {
            if (columns == all) {
                return 1;
            }
            long sum = 0;
            for (int free = ~(columns | left | right) & all; free != 0; free &= free - 1) {
                int bit = free & -free;
                sum += count(all, columns | bit, (left | bit) << 1, (right | bit) >> 1);
            }
            return sum;
        }
    }
}
