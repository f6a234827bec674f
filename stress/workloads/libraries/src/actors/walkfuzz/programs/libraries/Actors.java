package walkfuzz.programs.libraries;

import java.time.Duration;
import java.util.concurrent.TimeUnit;

import com.typesafe.config.ConfigFactory;

import org.apache.pekko.actor.AbstractActor;
import org.apache.pekko.actor.ActorRef;
import org.apache.pekko.actor.ActorSystem;
import org.apache.pekko.actor.Props;
import org.apache.pekko.pattern.Patterns;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;
import walkfuzz.programs.Settings;

/** Counts an unbalanced tree with an actor for each node near the root, each of which asks its children; plain recursion knows the count. */
public final class Actors implements Program {
    private static final int DEPTH = 9;
    private static final int ACTOR_DEPTH = 5;
    private static final Duration PATIENCE = Duration.ofSeconds(120);
    private ActorSystem system;

    @Override
    public void prepare(Settings settings) {
        system = ActorSystem.create("walkfuzz", ConfigFactory.parseString("pekko.loglevel = WARNING, pekko.log-dead-letters = off,"
            + "pekko.actor.default-dispatcher.fork-join-executor { parallelism-min = " + settings.threads + ", parallelism-max = " + settings.threads + " }")
            .withFallback(ConfigFactory.load()));
    }

    @Override
    public void round(Rng rng, Checks checks) throws Exception {
        long root = rng.next();
        ActorRef counter = system.actorOf(Props.create(Node.class, root, 0));
        Object counted = Patterns.ask(counter, "count", PATIENCE).toCompletableFuture().get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        system.stop(counter);
        checks.equal("nodes of the tree", count(root, 0), (Long) counted);
    }

    private static int children(long node, int depth) {
        return depth == 0 ? 6 : depth >= DEPTH ? 0 : (int) (node >>> 60) % 5;
    }

    private static long child(long node, int which) {
        return new Rng(node + which).next();
    }

    private static long count(long node, int depth) {
        long sum = 1;
        for (int i = 0; i < children(node, depth); i++) {
            sum += count(child(node, i), depth + 1);
        }
        return sum;
    }

    /** A node of the tree. */
    public static final class Node extends AbstractActor {
        private final long node;
        private final int depth;
        private int waiting;
        private long sum = 1;
        private ActorRef asker;

        public Node(long node, int depth) {
            this.node = node;
            this.depth = depth;
        }

        @Override
        public Receive createReceive() {
            return receiveBuilder().matchEquals("count", ask -> begin()).match(Long.class, this::counted).build();
        }

        private void begin() {
            asker = getSender();
            if (depth >= ACTOR_DEPTH) {
                asker.tell(count(node, depth), getSelf());
                return;
            }
            waiting = children(node, depth);
            if (waiting == 0) {
                asker.tell(sum, getSelf());
            }
            for (int i = 0; i < waiting; i++) {
                getContext().actorOf(Props.create(Node.class, child(node, i), depth + 1)).tell("count", getSelf());
            }
        }

        private void counted(long below) {
            sum += below;
            getContext().stop(getSender());
            if (--waiting == 0) {
                asker.tell(sum, getSelf());
            }
        }
    }

    @Override
    public void close() throws Exception {
        system.terminate();
        system.getWhenTerminated().toCompletableFuture().get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }
}
