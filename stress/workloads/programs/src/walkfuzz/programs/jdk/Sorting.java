package walkfuzz.programs.jdk;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.TreeMap;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;

/** Sorts the same numbers in six ways, which must agree; the sum and the order are checked by themselves. */
public final class Sorting implements Program {
    private static final int SIZE = 8_000;

    @Override
    public void round(Rng rng, Checks checks) {
        int[] numbers = new int[SIZE];
        long sum = 0;
        for (int i = 0; i < SIZE; i++) {
            numbers[i] = rng.below(SIZE) - SIZE / 2;
            sum += numbers[i];
        }
        int[] quick = numbers.clone();
        quicksort(quick, 0, SIZE - 1);
        long sorted = quick[0];
        boolean ordered = true;
        for (int i = 1; i < SIZE; i++) {
            ordered &= quick[i - 1] <= quick[i];
            sorted += quick[i];
        }
        checks.holds("order", ordered);
        checks.equal("sum", sum, sorted);
        int[] library = numbers.clone();
        Arrays.sort(library);
        checks.equal("Arrays.sort", quick, library);
        int[] parallel = numbers.clone();
        Arrays.parallelSort(parallel);
        checks.equal("Arrays.parallelSort", quick, parallel);
        checks.equal("merge sort", quick, merged(numbers));
        List<Integer> boxed = new ArrayList<>();
        for (int number : numbers) {
            boxed.add(number);
        }
        PriorityQueue<Integer> heap = new PriorityQueue<>(boxed);
        TreeMap<Integer, Integer> tree = new TreeMap<>(Comparator.reverseOrder());
        for (Integer number : boxed) {
            tree.merge(number, 1, Integer::sum);
        }
        boxed.sort(Comparator.comparing((Integer x) -> x.longValue()));
        int[] ofHeap = new int[SIZE];
        for (int i = 0; i < SIZE; i++) {
            ofHeap[i] = heap.remove();
        }
        checks.equal("heap", quick, ofHeap);
        checks.equal("sorted list", quick, boxed.stream().mapToInt(Integer::intValue).toArray());
        Collections.reverse(boxed);
        int at = 0;
        boolean same = true;
        for (var entry : tree.entrySet()) {
            for (int n = entry.getValue(); n > 0; n--) {
                same &= boxed.get(at++).equals(entry.getKey());
            }
        }
        checks.holds("tree, backwards", same && at == SIZE);
    }

    private static void quicksort(int[] a, int low, int high) {
        int i = low;
        int j = high;
        int pivot = a[(low + high) >>> 1];
        while (i <= j) {
            while (a[i] < pivot) {
                i++;
            }
            while (a[j] > pivot) {
                j--;
            }
            if (i <= j) {
                int x = a[i];
                a[i++] = a[j];
                a[j--] = x;
            }
        }
        if (low < j) {
            quicksort(a, low, j);
        }
        if (i < high) {
            quicksort(a, i, high);
        }
    }

    private static int[] merged(int[] a) {
        if (a.length < 2) {
            return a;
        }
        int[] left = merged(Arrays.copyOf(a, a.length / 2));
        int[] right = merged(Arrays.copyOfRange(a, a.length / 2, a.length));
        int[] all = new int[a.length];
        for (int i = 0, l = 0, r = 0; i < all.length; i++) {
            all[i] = r >= right.length || l < left.length && left[l] <= right[r] ? left[l++] : right[r++];
        }
        return all;
    }
}
