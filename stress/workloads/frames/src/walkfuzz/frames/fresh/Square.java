package walkfuzz.frames.fresh;

/** The subclass that is there from the beginning. */
final class Square extends Shape {
    @Override
    long area(long x) {
        return x * x;
    }
}
