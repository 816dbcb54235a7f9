// RocksDB.

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include <memory>

#include "phases.h"

namespace {

void check(const rocksdb::Status& status) {
    if (!status.ok()) fail(status.ToString());
}

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

class Engine {
  public:
    Engine(const std::string& dir, const Settings& settings) {
        rocksdb::Options options;
        options.create_if_missing = true;
        if (!settings.defaults()) {
            rocksdb::BlockBasedTableOptions table;
            table.block_cache = rocksdb::NewLRUCache(settings.cache_bytes);
            table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(FILTER_BITS));
            options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
            options.write_buffer_size = settings.memtable_bytes;
            options.compression = rocksdb::kNoCompression;
        }
        rocksdb::DB* db;
        check(rocksdb::DB::Open(options, dir, &db));
        db_.reset(db);
    }

    void put(const Key& key, const Value& value) { check(db_->Put({}, slice(key.view()), slice(value.view()))); }

    void settle() { check(db_->Flush({})); }

    template <class Row>
    void scan(Row row) {
        rocksdb::ReadOptions options;
        options.fill_cache = false;
        std::unique_ptr<rocksdb::Iterator> rows(db_->NewIterator(options));
        for (rows->SeekToFirst(); rows->Valid(); rows->Next()) {
            row(rows->key().ToStringView(), rows->value().ToStringView());
        }
        check(rows->status());
    }

    class Reader {
      public:
        Reader(Engine& engine, bool) : db_(*engine.db_) {}
        std::optional<std::string_view> get(const Key& key) {
            value_.Reset();
            auto status = db_.Get({}, db_.DefaultColumnFamily(), slice(key.view()), &value_);
            if (status.IsNotFound()) return std::nullopt;
            check(status);
            return value_.ToStringView();
        }

      private:
        rocksdb::DB& db_;
        rocksdb::PinnableSlice value_;
    };

  private:
    std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

int main(int argc, char** argv) { return main_of<Engine>("rocksdb", argc, argv); }
