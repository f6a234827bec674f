package walkfuzz.programs.libraries;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

import scala.Tuple2;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;
import walkfuzz.programs.Settings;
import walkfuzz.programs.Unsupported;

/** Spark in one process: page rank of a small web, which a loop ranks as well, and SQL (generated code) over numbers whose sums are known. */
public final class Spark implements Program {
    private static final int PAGES = 60;
    private static final int LINKS = 4;
    private static final int ITERATIONS = 3;
    private static final double DAMPING = 0.85;
    /** In which Subject.getSubject stopped working, which this Spark's Hadoop client calls. */
    private static final int NO_SUBJECT = 23;
    private SparkSession session;

    @Override
    public void prepare(Settings settings) throws Unsupported {
        int feature = Runtime.version().feature();
        if (feature >= NO_SUBJECT) {
            throw new Unsupported("the Hadoop client of this Spark calls Subject.getSubject, which JDK " + feature + " refuses");
        }
        session = SparkSession.builder().appName("walkfuzz").master("local[" + settings.threads + "]")
            .config("spark.ui.enabled", false).config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", 2).config("spark.default.parallelism", 2).config("spark.log.level", "ERROR")
            .config("spark.sql.warehouse.dir", System.getProperty("java.io.tmpdir") + "/walkfuzz-spark").getOrCreate();
        session.sparkContext().setLogLevel("ERROR");
    }

    @Override
    public int workers(Settings settings) {
        return 1;
    }

    @Override
    public void round(Rng rng, Checks checks) {
        sql(rng, checks);
        checks.piece();
        rank(rng, checks);
    }

    private void sql(Rng rng, Checks checks) {
        long n = 1_000 + 10L * rng.below(1_000);
        session.range(n).selectExpr("id % 10 as digit", "id as number").createOrReplaceTempView("numbers");
        List<Row> rows = session.sql("select digit, count(*), sum(number) from numbers group by digit order by digit").collectAsList();
        checks.equal("groups", 10, rows.size());
        for (Row row : rows) {
            long digit = row.getLong(0);
            long count = n / 10;
            checks.equal("numbers of a group", count, row.getLong(1));
            checks.equal("sum of a group", count * digit + 10 * (count * (count - 1) / 2), row.getLong(2));
        }
        checks.piece();
        checks.equal("pairs of a join", 2 * (n / 10), session.sql("select 1 from numbers a join numbers b on a.number = b.number where a.digit in (3, 7)").count());
    }

    private void rank(Rng rng, Checks checks) {
        Map<Integer, List<Integer>> web = new HashMap<>();
        for (int page = 0; page < PAGES; page++) {
            List<Integer> links = new ArrayList<>();
            for (int i = 0; i < LINKS; i++) {
                links.add(rng.below(PAGES));
            }
            web.put(page, links);
        }
        JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
        List<Tuple2<Integer, List<Integer>>> pairs = new ArrayList<>();
        web.forEach((page, links) -> pairs.add(new Tuple2<>(page, links)));
        JavaPairRDD<Integer, List<Integer>> links = context.parallelizePairs(pairs, 2).cache();
        JavaPairRDD<Integer, Double> ranks = links.mapValues(all -> 1.0);
        double[] expected = new double[PAGES];
        Arrays.fill(expected, 1.0);
        for (int i = 0; i < ITERATIONS; i++) {
            ranks = links.leftOuterJoin(ranks).values().flatMapToPair(entry -> {
                List<Tuple2<Integer, Double>> shares = new ArrayList<>();
                for (int to : entry._1()) {
                    shares.add(new Tuple2<>(to, entry._2().orElse(1 - DAMPING) / LINKS));
                }
                return shares.iterator();
            }).reduceByKey(Double::sum).mapValues(sum -> 1 - DAMPING + DAMPING * sum);
            double[] next = new double[PAGES];
            Arrays.fill(next, 1 - DAMPING);
            for (int page = 0; page < PAGES; page++) {
                for (int to : web.get(page)) {
                    next[to] += DAMPING * expected[page] / LINKS;
                }
            }
            expected = next;
        }
        Map<Integer, Double> found = ranks.collectAsMap();
        links.unpersist();
        double difference = 0;
        for (int page = 0; page < PAGES; page++) {
            // A page without links to it has no entry.
            difference = Math.max(difference, Math.abs(expected[page] - found.getOrDefault(page, 1 - DAMPING)));
        }
        checks.holds("ranks as the loop has them, difference " + difference, difference < 1e-9);
    }

    @Override
    public void close() {
        session.stop();
    }
}
