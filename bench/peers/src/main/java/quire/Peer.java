package quire;

/** An engine with documents of two text fields, which counts those that have given values. */
interface Peer extends AutoCloseable {
    /** Takes all documents, and makes them ready to be asked. */
    void load(Documents documents) throws Exception;

    /** Makes a question: how many documents have this value of f, and this value of g, unless that is null. */
    Object question(String f, String g) throws Exception;

    /** Answers a question. */
    long count(Object question) throws Exception;
}
