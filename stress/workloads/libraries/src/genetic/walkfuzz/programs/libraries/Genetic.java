package walkfuzz.programs.libraries;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

import io.jenetics.BitChromosome;
import io.jenetics.BitGene;
import io.jenetics.Genotype;
import io.jenetics.Mutator;
import io.jenetics.Phenotype;
import io.jenetics.SinglePointCrossover;
import io.jenetics.TournamentSelector;
import io.jenetics.engine.Engine;
import io.jenetics.engine.EvolutionResult;
import io.jenetics.engine.Limits;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;
import walkfuzz.programs.Settings;

/** Breeds bits until they spell a hidden pattern; the best one, counted anew, must be as good as the library says, and no generation worse. */
public final class Genetic implements Program {
    private static final int BITS = 48;
    private static final int GENERATIONS = 3_000;
    private ExecutorService pool;

    @Override
    public void prepare(Settings settings) {
        pool = Executors.newFixedThreadPool(settings.threads);
    }

    @Override
    public int workers(Settings settings) {
        return 1;
    }

    @Override
    public void round(Rng rng, Checks checks) {
        long pattern = rng.next() >>> 64 - BITS;
        Engine<BitGene, Integer> engine = Engine.builder(genes -> fitness(genes, pattern), BitChromosome.of(BITS, 0.5))
            .populationSize(60).selector(new TournamentSelector<>(4)).alterers(new Mutator<>(0.02), new SinglePointCrossover<>(0.3))
            .executor(pool).build();
        int[] best = new int[1];
        boolean[] worse = new boolean[1];
        Phenotype<BitGene, Integer> found = engine.stream().limit(Limits.byFitnessThreshold(BITS - 1)).limit(GENERATIONS)
            .peek(generation -> {
                worse[0] |= generation.totalGenerations() <= best[0];
                best[0] = (int) generation.totalGenerations();
                checks.piece();
            }).collect(EvolutionResult.toBestPhenotype());
        checks.equal("fitness counted anew", fitness(found.genotype(), pattern), found.fitness());
        checks.equal("bits that fit", BITS, found.fitness());
        checks.holds("generations in order", !worse[0]);
    }

    private static int fitness(Genotype<BitGene> genes, long pattern) {
        int fit = 0;
        for (int i = 0; i < BITS; i++) {
            fit += genes.chromosome().get(i).booleanValue() == ((pattern >>> i & 1) == 1) ? 1 : 0;
        }
        return fit;
    }

    @Override
    public void close() {
        pool.shutdownNow();
    }
}
