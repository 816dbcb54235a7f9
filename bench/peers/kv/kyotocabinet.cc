// Kyoto Cabinet's TreeDB: a B+-tree in a file, without a log.

#include <kchashdb.h>

#include "phases.h"

namespace {

class Engine {
  public:
    Engine(const std::string& dir, const Settings& settings) {
        if (!settings.defaults()) {
            // Where other engines have memtables, this one maps the start of its file.
            db_.tune_page_cache(static_cast<int64_t>(settings.cache_bytes));
            db_.tune_map(static_cast<int64_t>(settings.memtable_bytes));
        }
        uint32_t mode = kyotocabinet::TreeDB::OWRITER | kyotocabinet::TreeDB::OCREATE;
        check(db_.open(dir + "/tree.kct", mode));
    }
    ~Engine() { db_.close(); }

    void put(const Key& key, const Value& value) {
        auto bytes = value.view();
        check(db_.set(key.bytes.data(), KEY_BYTES, bytes.data(), bytes.size()));
    }

    void settle() { check(db_.synchronize(true)); }

    template <class Row>
    void scan(Row row) {
        struct Visitor : kyotocabinet::DB::Visitor {
            explicit Visitor(Row& row) : row(row) {}
            const char* visit_full(const char* key, size_t key_size, const char* value, size_t value_size,
                                   size_t*) override {
                row(std::string_view(key, key_size), std::string_view(value, value_size));
                return NOP;
            }
            Row& row;
        } visitor(row);
        check(db_.iterate(&visitor, false));
    }

    class Reader {
      public:
        Reader(Engine& engine, bool) : db_(engine.db_) {}
        std::optional<std::string_view> get(const Key& key) {
            int32_t size = db_.get(key.bytes.data(), KEY_BYTES, value_, sizeof value_);
            if (size >= 0) return std::string_view(value_, static_cast<size_t>(size));
            if (db_.error().code() == kyotocabinet::BasicDB::Error::NOREC) return std::nullopt;
            fail(db_.error().message());
        }

      private:
        kyotocabinet::TreeDB& db_;
        char value_[VALUE_BYTES + 1];
    };

  private:
    void check(bool done) {
        if (!done) fail(db_.error().message());
    }
    kyotocabinet::TreeDB db_;
};

}  // namespace

int main(int argc, char** argv) { return main_of<Engine>("kyotocabinet", argc, argv); }
