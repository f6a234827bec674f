//! Java work without classes of our own: enough calls into the JDK to have all kinds of code generated.

use jni::sys::{jobject, jvalue};

use crate::jvm::Env;

fn object(value: jobject) -> jvalue {
    jvalue { l: value }
}

fn long(value: i64) -> jvalue {
    jvalue { j: value }
}

fn int(value: i32) -> jvalue {
    jvalue { i: value }
}

/// A round of work: streams (interface and virtual calls, lambdas), regular expressions, big numbers (loops: on-stack
/// replacement), formatting, native methods.
pub(crate) fn round(env: Env) {
    env.frame(|| {
        let random = env.construct("java/util/Random", "(J)V", &[long(42)]);
        let ints = env.call(
            random,
            "java/util/Random",
            "ints",
            "(J)Ljava/util/stream/IntStream;",
            &[long(30_000)],
        );
        let boxed = env.call(
            ints,
            "java/util/stream/IntStream",
            "boxed",
            "()Ljava/util/stream/Stream;",
            &[],
        );
        let sorted = env.call(
            boxed,
            "java/util/stream/Stream",
            "sorted",
            "()Ljava/util/stream/Stream;",
            &[],
        );
        let array = env.call(
            sorted,
            "java/util/stream/Stream",
            "toArray",
            "()[Ljava/lang/Object;",
            &[],
        );
        env.call_static(
            "java/util/Arrays",
            "deepToString",
            "([Ljava/lang/Object;)Ljava/lang/String;",
            &[object(array)],
        );
    });
    env.frame(|| {
        let big = "java/math/BigInteger";
        let three = env.call_static(big, "valueOf", "(J)Ljava/math/BigInteger;", &[long(3)]);
        let power = env.call(
            three,
            big,
            "pow",
            "(I)Ljava/math/BigInteger;",
            &[int(20_000)],
        );
        env.call(power, big, "toString", "()Ljava/lang/String;", &[]);
    });
    for number in 0..300 {
        env.frame(|| {
            let text = env.string("the quick brown fox jumps over the lazy dog 0123456789");
            let pattern = env.string("(.)([aeiou]+)\\w?");
            let replacement = env.string("$2$1");
            let replaced = env.call(
                text,
                "java/lang/String",
                "replaceAll",
                "(Ljava/lang/String;Ljava/lang/String;)Ljava/lang/String;",
                &[object(pattern), object(replacement)],
            );
            let thread = env.call_static(
                "java/lang/Thread",
                "currentThread",
                "()Ljava/lang/Thread;",
                &[],
            );
            env.call(
                thread,
                "java/lang/Object",
                "getClass",
                "()Ljava/lang/Class;",
                &[],
            );
            env.call_static(
                "java/lang/Integer",
                "toString",
                "(I)Ljava/lang/String;",
                &[int(number)],
            );
            env.call(
                replaced,
                "java/lang/String",
                "intern",
                "()Ljava/lang/String;",
                &[],
            );
        });
    }
}
