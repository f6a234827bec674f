package walkfuzz.programs.libraries;

import java.util.concurrent.Callable;

import scala.concurrent.stm.Ref;
import scala.concurrent.stm.japi.STM;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;
import walkfuzz.programs.Settings;

/** Philosophers who take both forks in one transaction, eat and think; a camera photographs a table on which no fork may be taken twice. */
public final class Philosophers implements Program {
    private static final int MEALS = 300;
    private int philosophers;

    @Override
    public void prepare(Settings settings) {
        philosophers = Math.max(3, settings.threads);
    }

    @Override
    public int workers(Settings settings) {
        return 1;
    }

    @Override
    public void round(Rng rng, Checks checks) throws Exception {
        Ref.View<Boolean>[] taken = refs(false);
        Ref.View<Integer>[] meals = refs(0);
        Throwable[] failure = new Throwable[1];
        Thread[] threads = new Thread[philosophers];
        for (int i = 0; i < philosophers; i++) {
            int self = i;
            threads[i] = new Thread(() -> {
                try {
                    for (int meal = 0; meal < MEALS; meal++) {
                        eat(taken[self], taken[(self + 1) % philosophers], meals[self]);
                    }
                } catch (Throwable e) {
                    failure[0] = e;
                }
            }, "walkfuzz-philosopher-" + i);
            threads[i].setDaemon(true);
            threads[i].start();
        }
        int photographs = 0;
        while (photographs++ < 20) {
            int[] seen = STM.atomic((Callable<int[]>) () -> {
                int sum = 0;
                int forks = 0;
                for (int i = 0; i < philosophers; i++) {
                    sum += meals[i].get();
                    forks += taken[i].get() ? 1 : 0;
                }
                return new int[] {sum, forks};
            });
            checks.holds("forks taken in pairs", seen[1] % 2 == 0 && seen[1] <= philosophers);
            checks.holds("meals so far", seen[0] >= 0 && seen[0] <= philosophers * MEALS);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        if (failure[0] != null) {
            throw new IllegalStateException(failure[0]);
        }
        int sum = 0;
        for (Ref.View<Integer> eaten : meals) {
            sum += eaten.get();
        }
        checks.equal("meals", (long) philosophers * MEALS, sum);
    }

    private static void eat(Ref.View<Boolean> left, Ref.View<Boolean> right, Ref.View<Integer> meals) {
        STM.atomic(() -> {
            if (left.get() || right.get()) {
                STM.retry();
            }
            left.set(true);
            right.set(true);
        });
        STM.atomic(() -> {
            left.set(false);
            right.set(false);
            meals.set(meals.get() + 1);
        });
    }

    @SuppressWarnings("unchecked")
    private <T> Ref.View<T>[] refs(T value) {
        Ref.View<T>[] refs = new Ref.View[philosophers];
        for (int i = 0; i < philosophers; i++) {
            refs[i] = STM.newRef(value);
        }
        return refs;
    }
}
