package quire;

/** An engine with documents of two text fields, which counts those that have given values. */
interface Peer extends AutoCloseable {
    /** Takes all documents, and makes them ready to be asked. */
    void load(Documents documents) throws Exception;

    /** How many documents have this value of f. */
    long count(String f) throws Exception;

    /** How many documents have these values of f and g. */
    long count(String f, String g) throws Exception;
}
