// LMDB: a B+-tree in a mapped file, without a log. A transaction for each write would write a page for each level of the
// tree: here many writes share one, which favours it.

#include <lmdb.h>

#include "phases.h"

namespace {

void check(int code) {
    if (code) fail(mdb_strerror(code));
}

MDB_val val(std::string_view bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }

std::string_view view(const MDB_val& val) { return {static_cast<const char*>(val.mv_data), val.mv_size}; }

class Engine {
  public:
    Engine(const std::string& dir, const Settings& settings) {
        check(mdb_env_create(&env_));
        // Address space only.
        check(mdb_env_set_mapsize(env_, (size_t{1} << 30) + settings.count * 1024));
        check(mdb_env_open(env_, dir.c_str(), MDB_NOSYNC, 0644));
        MDB_txn* txn;
        check(mdb_txn_begin(env_, nullptr, 0, &txn));
        check(mdb_dbi_open(txn, nullptr, 0, &dbi_));
        check(mdb_txn_commit(txn));
    }
    Engine(const Engine&) = delete;
    ~Engine() {
        if (writes_) mdb_txn_abort(writes_);
        mdb_env_close(env_);
    }

    void put(const Key& key, const Value& value) {
        MDB_val k = val(key.view()), v = val(value.view());
        check(mdb_put(writes(), dbi_, &k, &v, 0));
        if (++puts_ % TRANSACTION_PUTS == 0) commit();
    }

    void settle() {
        commit();
        check(mdb_env_sync(env_, 1));
    }

    template <class Row>
    void scan(Row row) {
        MDB_txn* txn;
        MDB_cursor* cursor;
        check(mdb_txn_begin(env_, nullptr, MDB_RDONLY, &txn));
        check(mdb_cursor_open(txn, dbi_, &cursor));
        MDB_val key, value;
        int code;
        while ((code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) row(view(key), view(value));
        mdb_cursor_close(cursor);
        mdb_txn_abort(txn);
        if (code != MDB_NOTFOUND) check(code);
    }

    class Reader {
      public:
        // The writer's reads are part of its transactions; others keep one for all.
        Reader(Engine& engine, bool of_writer) : engine_(engine) {
            if (!of_writer) check(mdb_txn_begin(engine.env_, nullptr, MDB_RDONLY, &txn_));
        }
        Reader(const Reader&) = delete;
        ~Reader() {
            if (txn_) mdb_txn_abort(txn_);
        }
        std::optional<std::string_view> get(const Key& key) {
            MDB_val k = val(key.view()), v;
            int code = mdb_get(txn_ ? txn_ : engine_.writes(), engine_.dbi_, &k, &v);
            if (code == MDB_NOTFOUND) return std::nullopt;
            check(code);
            return view(v);
        }

      private:
        Engine& engine_;
        MDB_txn* txn_ = nullptr;
    };

  private:
    MDB_txn* writes() {
        if (!writes_) check(mdb_txn_begin(env_, nullptr, 0, &writes_));
        return writes_;
    }
    void commit() {
        if (!writes_) return;
        MDB_txn* txn = writes_;
        writes_ = nullptr;
        check(mdb_txn_commit(txn));
    }

    MDB_env* env_ = nullptr;
    MDB_dbi dbi_ = 0;
    MDB_txn* writes_ = nullptr;
    uint64_t puts_ = 0;
};

}  // namespace

int main(int argc, char** argv) { return main_of<Engine>("lmdb", argc, argv); }
