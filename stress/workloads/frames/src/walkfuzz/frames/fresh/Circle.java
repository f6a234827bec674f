package walkfuzz.frames.fresh;

/** The subclass whose loading invalidates compiled code. */
final class Circle extends Shape {
    @Override
    long area(long x) {
        return x * x * 3;
    }
}
