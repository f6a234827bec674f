package walkfuzz.programs.libraries;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import io.reactivex.rxjava3.core.Flowable;
import io.reactivex.rxjava3.core.Observable;
import io.reactivex.rxjava3.schedulers.Schedulers;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;

/** Scores words as Scrabble does, in the manner of rx-scrabble: streams of streams, groups, parallel rails; loops know the results. */
public final class Rx implements Program {
    private static final int WORDS = 400;
    private static final int[] SCORES = {1, 3, 3, 2, 1, 4, 2, 4, 1, 8, 5, 1, 3, 1, 1, 3, 10, 1, 1, 1, 1, 4, 4, 8, 4, 10};
    /** How often a letter is in the bag; more of them are blanks. */
    private static final int[] LETTERS = {9, 2, 2, 1, 12, 2, 3, 2, 9, 1, 1, 4, 2, 6, 8, 2, 1, 6, 4, 6, 4, 2, 2, 1, 2, 1};

    @Override
    public void round(Rng rng, Checks checks) {
        List<String> words = new ArrayList<>();
        for (int i = 0; i < WORDS; i++) {
            StringBuilder word = new StringBuilder();
            for (int n = 3 + rng.below(10); n > 0; n--) {
                word.append((char) ('a' + rng.below(26)));
            }
            words.add(word.toString());
        }
        int best = 0;
        long all = 0;
        Map<Integer, Integer> lengths = new TreeMap<>();
        for (String word : words) {
            best = Math.max(best, plainScore(word));
            all += plainScore(word);
            lengths.merge(word.length(), 1, Integer::sum);
        }
        checks.equal("best score", best, Flowable.fromIterable(words).map(Rx::score).reduce(0, Math::max).blockingGet());
        checks.equal("sum of scores on parallel rails", all, Flowable.fromIterable(words).parallel(2).runOn(Schedulers.computation()).map(Rx::score)
            .sequential().reduce(0L, (sum, score) -> sum + score).blockingGet());
        checks.same("words by length", lengths, Observable.fromIterable(words).groupBy(String::length)
            .flatMapSingle(group -> group.count().map(count -> Map.entry(group.getKey(), count.intValue())))
            .collect(TreeMap<Integer, Integer>::new, (map, entry) -> map.put(entry.getKey(), entry.getValue())).blockingGet());
        checks.equal("words through threads and back", WORDS, Flowable.fromIterable(words).observeOn(Schedulers.io(), false, 16)
            .concatMapEager(word -> Flowable.just(word).subscribeOn(Schedulers.computation()).map(String::length)).count().blockingGet());
    }

    private static int score(String word) {
        Map<Integer, Integer> histogram = Observable.fromStream(word.chars().boxed())
            .collect(HashMap<Integer, Integer>::new, (map, letter) -> map.merge(letter - 'a', 1, Integer::sum)).blockingGet();
        return Observable.fromIterable(histogram.entrySet())
            .map(entry -> SCORES[entry.getKey()] * Math.min(entry.getValue(), LETTERS[entry.getKey()]))
            .reduce(0, Integer::sum).blockingGet();
    }

    private static int plainScore(String word) {
        int[] counts = new int[SCORES.length];
        int score = 0;
        for (char letter : word.toCharArray()) {
            if (counts[letter - 'a']++ < LETTERS[letter - 'a']) {
                score += SCORES[letter - 'a'];
            }
        }
        return score;
    }

    @Override
    public void close() {
        Schedulers.shutdown();
    }
}
