package walkfuzz.programs.jdk;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;

/** Two interpreters run small programs: a stack machine (one huge switch) and a tree (virtual calls, recursion). */
public final class Interpreter implements Program {
    private static final int PUSH = 0;
    private static final int LOAD = 1;
    private static final int STORE = 2;
    private static final int ADD = 3;
    private static final int LESS = 4;
    private static final int JUMP_IF_NOT = 5;
    private static final int JUMP = 6;
    private static final int GET = 7;
    private static final int PUT = 8;
    private static final int HALT = 9;
    private static final int SIEVE_BELOW = 5_000;
    private static final long PRIMES = 669;
    /** Variables: 0 candidate, 1 multiple, 2 primes found. */
    private static final int[] SIEVE = {
        PUSH, 2, STORE, 0,
        /* 4 */ LOAD, 0, PUSH, SIEVE_BELOW, LESS, JUMP_IF_NOT, 56,
        LOAD, 0, GET, JUMP_IF_NOT, 26,
        /* 16: crossed out */ LOAD, 0, PUSH, 1, ADD, STORE, 0, JUMP, 4, HALT,
        /* 26: a prime */ LOAD, 2, PUSH, 1, ADD, STORE, 2, LOAD, 0, STORE, 1,
        /* 37 */ LOAD, 1, PUSH, SIEVE_BELOW, LESS, JUMP_IF_NOT, 16, LOAD, 1, PUT, LOAD, 1, LOAD, 0, ADD, STORE, 1, JUMP, 37,
        /* never */ HALT,
    };

    @Override
    public void round(Rng rng, Checks checks) {
        checks.equal("primes by the stack machine", PRIMES, run(SIEVE));
        int n = 12 + rng.below(6);
        checks.equal("Fibonacci number " + n + " by the tree", fibonacci(n), FIBONACCI.value(n));
    }

    private static long run(int[] code) {
        long[] stack = new long[16];
        long[] variables = new long[4];
        long[] memory = new long[SIEVE_BELOW];
        int top = 0;
        int at = 0;
        while (true) {
            if (at >= code.length) {
                return variables[2];
            }
            switch (code[at++]) {
                case PUSH:
                    stack[top++] = code[at++];
                    break;
                case LOAD:
                    stack[top++] = variables[code[at++]];
                    break;
                case STORE:
                    variables[code[at++]] = stack[--top];
                    break;
                case ADD:
                    top--;
                    stack[top - 1] += stack[top];
                    break;
                case LESS:
                    top--;
                    stack[top - 1] = stack[top - 1] < stack[top] ? 1 : 0;
                    break;
                case JUMP_IF_NOT:
                    at = stack[--top] == 0 ? code[at] : at + 1;
                    break;
                case JUMP:
                    at = code[at];
                    break;
                case GET:
                    stack[top - 1] = memory[(int) stack[top - 1]];
                    break;
                case PUT:
                    memory[(int) stack[--top]] = 1;
                    break;
                default:
                    return variables[2];
            }
        }
    }

    private static long fibonacci(int n) {
        long a = 0;
        long b = 1;
        for (int i = 0; i < n; i++) {
            long next = a + b;
            a = b;
            b = next;
        }
        return a;
    }

    /** A function of one argument. */
    private interface Node {
        long value(long argument);
    }

    private static final class Constant implements Node {
        private final long constant;

        Constant(long constant) {
            this.constant = constant;
        }

        @Override
        public long value(long argument) {
            return constant;
        }
    }

    private static final class Argument implements Node {
        @Override
        public long value(long argument) {
            return argument;
        }
    }

    private static final class Sum implements Node {
        private final Node left;
        private final Node right;

        Sum(Node left, Node right) {
            this.left = left;
            this.right = right;
        }

        @Override
        public long value(long argument) {
            return left.value(argument) + right.value(argument);
        }
    }

    private static final class IfLess implements Node {
        private final Node left;
        private final Node right;
        private final Node then;
        private final Node otherwise;

        IfLess(Node left, Node right, Node then, Node otherwise) {
            this.left = left;
            this.right = right;
            this.then = then;
            this.otherwise = otherwise;
        }

        @Override
        public long value(long argument) {
            return left.value(argument) < right.value(argument) ? then.value(argument) : otherwise.value(argument);
        }
    }

    /** Calls the function, once its body is known. */
    private static final class Function implements Node {
        private Node body;

        @Override
        public long value(long argument) {
            return body.value(argument);
        }
    }

    private static final class Call implements Node {
        private final Node function;
        private final Node with;

        Call(Node function, Node with) {
            this.function = function;
            this.with = with;
        }

        @Override
        public long value(long argument) {
            return function.value(with.value(argument));
        }
    }

    private static final Function FIBONACCI = new Function();

    static {
        Node x = new Argument();
        FIBONACCI.body = new IfLess(x, new Constant(2), x, new Sum(
            new Call(FIBONACCI, new Sum(x, new Constant(-1))), new Call(FIBONACCI, new Sum(x, new Constant(-2)))));
    }
}
