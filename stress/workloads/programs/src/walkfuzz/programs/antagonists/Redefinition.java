package walkfuzz.programs.antagonists;

import java.lang.instrument.ClassDefinition;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;

import walkfuzz.programs.Agent;
import walkfuzz.programs.Antagonist;
import walkfuzz.programs.Fresh;
import walkfuzz.programs.Moulds;
import walkfuzz.programs.Rng;
import walkfuzz.programs.Settings;

/** Redefines and retransforms a class while another thread is in its methods, so that obsolete methods are on stacks. */
public final class Redefinition extends Antagonist implements ClassFileTransformer {
    private Instrumentation instrumentation;
    private Fresh redefined;
    private Class<?> type;
    private volatile int stamp = 1;
    private int turn;
    private volatile long sink;

    @Override
    protected void prepare(Settings settings) throws Exception {
        instrumentation = Agent.instrumentation();
        redefined = new Moulds.Loader().create("Leaf", stamp);
        type = redefined.getClass();
        instrumentation.addTransformer(this, true);
    }

    @Override
    protected int threads() {
        return 2;
    }

    @Override
    protected int restMillis() {
        return 2;
    }

    @Override
    protected long operate(int thread, Rng rng) throws Exception {
        if (thread == 1) {
            sink += redefined.steady(300_000, rng.next());
            return 0;
        }
        int wanted = (int) rng.next();
        if (turn++ % 2 == 0) {
            instrumentation.redefineClasses(new ClassDefinition(type, Moulds.stamped("Leaf", stamp = wanted)));
        } else {
            stamp = wanted;
            instrumentation.retransformClasses(type);
        }
        require("number after a redefinition", wanted, redefined.stamp());
        return 1;
    }

    @Override
    public byte[] transform(ClassLoader loader, String name, Class<?> redefining, ProtectionDomain domain, byte[] bytes) {
        return redefining == type && type != null ? Moulds.stamped("Leaf", stamp) : null;
    }
}
