package walkfuzz.frames;

/** One platform thread that is walked: takes turns, a slice of work each, kinds round robin and at random. */
final class Worker implements Runnable {
    private final int index;
    private final long warmUpMillis;
    private final Rng rng;
    private final Work[] works;
    private int next;

    Worker(int index, long seed, long warmUpMillis) {
        this.index = index;
        this.warmUpMillis = warmUpMillis;
        this.rng = new Rng(seed);
        int count = 0;
        Work[] all = Frames.all();
        for (int i = 0; i < all.length; i++) {
            if (all[i].present()) {
                count++;
            }
        }
        this.works = new Work[count];
        for (int i = 0, n = 0; i < all.length; i++) {
            if (all[i].present()) {
                works[n++] = all[i];
            }
        }
        // Workers begin at different kinds, so that they do not all do the same.
        this.next = index * 7 % count;
    }

    @Override
    public void run() {
        warmUp();
        Frames.threadStarted(index);
        try {
            for (;;) {
                int turn = Frames.awaitTurn(index);
                if (turn < 0) {
                    return;
                }
                Frames.attempt(turn == 0 ? choose() : works[(turn - 1) % works.length], rng);
            }
        } finally {
            Frames.threadStopped(index);
        }
    }

    private void warmUp() {
        long end = System.nanoTime() + warmUpMillis * 1_000_000;
        while (warmUpMillis > 0 && System.nanoTime() - end < 0) {
            Frames.attempt(choose(), rng);
        }
    }

    /** Three times of four the next kind, else any. */
    private Work choose() {
        if (rng.below(4) == 0) {
            return works[rng.below(works.length)];
        }
        next = (next + 1) % works.length;
        return works[next];
    }
}
