package walkfuzz.frames;

/** A thread of low duty that disturbs the workers: deoptimisation, class loading and unloading, collections. */
final class Antagonist implements Runnable {
    private static final int COLLECT_EVERY = 5;
    private final Rng rng;
    private final int periodMillis;

    Antagonist(long seed, int periodMillis) {
        this.rng = new Rng(~seed);
        this.periodMillis = periodMillis;
    }

    @Override
    public void run() {
        Work[] works = {new Deoptimised(), new Loading(), new Calls.Reflected(), new Calls.Handles()};
        try {
            for (int round = 1;; round++) {
                Thread.sleep(periodMillis);
                long end = System.nanoTime() + 3_000_000;
                while (System.nanoTime() - end < 0) {
                    Frames.attempt(works[rng.below(works.length)], rng);
                }
                if (round % COLLECT_EVERY == 0) {
                    System.gc();
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
