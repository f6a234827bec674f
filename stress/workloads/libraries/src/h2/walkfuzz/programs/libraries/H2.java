package walkfuzz.programs.libraries;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.concurrent.atomic.AtomicInteger;

import org.h2.mvstore.MVMap;
import org.h2.mvstore.MVStore;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;

/** A database in memory: transfers between accounts leave the sum alone, queries agree with closed forms; and its store without SQL. */
public final class H2 implements Program {
    private static final int ACCOUNTS = 200;
    private static final int TRANSFERS = 60;
    private final AtomicInteger number = new AtomicInteger();

    @Override
    public void round(Rng rng, Checks checks) throws Exception {
        try (Connection connection = DriverManager.getConnection("jdbc:h2:mem:round" + number.getAndIncrement())) {
            sql(connection, rng, checks);
        }
        store(rng, checks);
    }

    private static void sql(Connection connection, Rng rng, Checks checks) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.execute("create table account(id int primary key, branch int, balance bigint)");
            statement.execute("create index by_branch on account(branch)");
        }
        try (PreparedStatement insert = connection.prepareStatement("insert into account values(?, ?, ?)")) {
            for (int i = 0; i < ACCOUNTS; i++) {
                insert.setInt(1, i);
                insert.setInt(2, i % 10);
                insert.setLong(3, i);
                insert.addBatch();
            }
            insert.executeBatch();
        }
        connection.setAutoCommit(false);
        try (PreparedStatement update = connection.prepareStatement("update account set balance = balance + ? where id = ?")) {
            for (int i = 0; i < TRANSFERS; i++) {
                int amount = rng.below(100);
                for (int side : new int[] {-1, 1}) {
                    update.setInt(1, side * amount);
                    update.setInt(2, rng.below(ACCOUNTS));
                    checks.equal("accounts changed", 1, update.executeUpdate());
                    if (i % 5 == 0 && side < 0) {
                        // Half a transfer is taken back.
                        connection.rollback();
                        break;
                    }
                }
                connection.commit();
            }
        }
        checks.equal("sum of balances", (long) ACCOUNTS * (ACCOUNTS - 1) / 2, number(connection, "select sum(balance) from account"));
        checks.equal("branches", 10, number(connection, "select count(*) from (select branch, max(balance) from account group by branch having count(*) = " + ACCOUNTS / 10 + ")"));
        checks.equal("pairs in a branch", ACCOUNTS * (ACCOUNTS / 10 - 1) / 2, number(connection, "select count(*) from account a join account b on a.branch = b.branch and a.id < b.id"));
        checks.equal("squares by recursion", 2_870, number(connection, "with recursive t(n) as (select 1 union all select n + 1 from t where n < 20) select sum(n * n) from t"));
    }

    private static long number(Connection connection, String query) throws Exception {
        try (Statement statement = connection.createStatement(); ResultSet result = statement.executeQuery(query)) {
            result.next();
            return result.getLong(1);
        }
    }

    private static void store(Rng rng, Checks checks) {
        try (MVStore store = MVStore.open(null)) {
            MVMap<Integer, String> map = store.openMap("map");
            int entries = 500 + rng.below(500);
            for (int i = 0; i < entries; i++) {
                map.put(i * 7919 % entries, "value" + i);
            }
            long version = store.getCurrentVersion();
            store.commit();
            for (int i = 0; i < entries; i += 2) {
                map.remove(i);
            }
            store.commit();
            checks.equal("entries left in the store", entries / 2, map.sizeAsLong());
            checks.equal("entries of the older version", entries, map.openVersion(version).sizeAsLong());
        }
    }
}
