package walkfuzz.programs;

import java.io.File;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.InvocationTargetException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.concurrent.TimeUnit;

/**
 * Gets hold of an Instrumentation: the one of {@code -javaagent:programs.jar}, else by attaching to this very JVM; JVMs do not allow
 * that from inside without an option, so a second JVM does it, with {@link #main}.
 */
public final class Agent {
    private static final long ATTACH_SECONDS = 60;
    private static volatile Instrumentation instrumentation;

    private Agent() {
    }

    /** Called by the JVM before {@code main}, by the name in the manifest. */
    public static void premain(String arguments, Instrumentation given) {
        instrumentation = given;
    }

    /** Called by the JVM when the jar is loaded into it. */
    public static void agentmain(String arguments, Instrumentation given) {
        instrumentation = given;
    }

    /** The instrumentation of this JVM. */
    public static synchronized Instrumentation instrumentation() throws Unsupported {
        if (instrumentation == null) {
            attachFromOutside();
        }
        return instrumentation;
    }

    private static void attachFromOutside() throws Unsupported {
        try {
            Path jar = Paths.get(Agent.class.getProtectionDomain().getCodeSource().getLocation().toURI());
            String java = System.getProperty("java.home") + File.separator + "bin" + File.separator + "java";
            ProcessBuilder second = new ProcessBuilder(
                java, "-Xmx64m", "-Xshare:auto", "-cp", jar.toString(), Agent.class.getName(), Long.toString(ProcessHandle.current().pid()), jar.toString());
            // Options meant for the sampled JVM: a sampler in the second one would write to the same record.
            second.environment().remove("JAVA_TOOL_OPTIONS");
            second.environment().remove("JDK_JAVA_OPTIONS");
            second.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.PIPE);
            Process process = second.start();
            process.getOutputStream().close();
            if (!process.waitFor(ATTACH_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new Unsupported("no attachment within " + ATTACH_SECONDS + " s; give -javaagent:" + jar);
            }
            if (instrumentation == null) {
                String said = new String(process.getInputStream().readAllBytes()).trim();
                throw new Unsupported("cannot attach (" + said.replace('\n', ' ') + "); give -javaagent:" + jar);
            }
        } catch (Unsupported e) {
            throw e;
        } catch (Exception e) {
            throw new Unsupported("cannot attach (" + e + ")");
        }
    }

    /** The second JVM: loads a jar as an agent into a process. Reflection, because a runtime may lack the module. */
    public static void main(String[] arguments) throws Exception {
        try {
            Class<?> type = Class.forName("com.sun.tools.attach.VirtualMachine");
            Object machine = type.getMethod("attach", String.class).invoke(null, arguments[0]);
            type.getMethod("loadAgent", String.class).invoke(machine, arguments[1]);
            type.getMethod("detach").invoke(machine);
        } catch (ClassNotFoundException e) {
            System.out.println("this runtime has no jdk.attach");
            System.exit(1);
        } catch (InvocationTargetException e) {
            System.out.println(e.getCause());
            System.exit(1);
        }
    }
}
