package quire;

import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/** H2: a table with an index on each field. */
final class H2 implements Peer {
    private final Connection connection;
    private PreparedStatement countOne;
    private PreparedStatement countBoth;

    H2(Path path) throws SQLException {
        connection = DriverManager.getConnection("jdbc:h2:file:" + path.toAbsolutePath().resolve("h2"));
    }

    @Override
    public void load(Documents documents) throws Exception {
        String[] f = Documents.values(Documents.F_VALUES);
        String[] g = Documents.values(Documents.G_VALUES);
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE test (id INT PRIMARY KEY, f VARCHAR(32), g VARCHAR(32))");
            connection.setAutoCommit(false);
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO test VALUES (?, ?, ?)")) {
                for (int id = 0; id < documents.count(); id++) {
                    insert.setInt(1, id);
                    insert.setString(2, f[id % f.length]);
                    insert.setString(3, g[id % g.length]);
                    insert.addBatch();
                    if (id % 10_000 == 9_999) {
                        insert.executeBatch();
                    }
                }
                insert.executeBatch();
            }
            connection.commit();
            connection.setAutoCommit(true);
            statement.execute("CREATE INDEX by_f ON test (f)");
            statement.execute("CREATE INDEX by_g ON test (g)");
            statement.execute("ANALYZE");
        }
        countOne = connection.prepareStatement("SELECT COUNT(id) FROM test WHERE f = ?");
        countBoth = connection.prepareStatement("SELECT COUNT(id) FROM test WHERE f = ? AND g = ?");
    }

    @Override
    public Object question(String f, String g) {
        return new String[] {f, g};
    }

    @Override
    public long count(Object question) throws SQLException {
        String[] values = (String[]) question;
        PreparedStatement statement = values[1] == null ? countOne : countBoth;
        statement.setString(1, values[0]);
        if (values[1] != null) {
            statement.setString(2, values[1]);
        }
        return only(statement);
    }

    private static long only(PreparedStatement statement) throws SQLException {
        try (ResultSet rows = statement.executeQuery()) {
            rows.next();
            return rows.getLong(1);
        }
    }

    @Override
    public void close() throws SQLException {
        connection.close();
    }
}
