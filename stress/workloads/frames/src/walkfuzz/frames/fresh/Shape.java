package walkfuzz.frames.fresh;

/** While {@link Square} is the only loaded subclass, compilers bind calls of area statically. */
abstract class Shape {
    abstract long area(long x);
}
