package walkfuzz.frames;

/** What a class defined anew by {@link FreshLoader} can be asked to do from outside its loader. */
public interface Fresh {
    /** A long loop, for on-stack replacement. */
    long loop(int rounds, long x);

    /** Many short calls whose profile stays the same, so that a compiler bets on it. */
    long steady(int rounds, long x);

    /** Breaks one of the bets: an uncommon trap, or a dependency that no longer holds. */
    long surprise(int which, long x);
}
