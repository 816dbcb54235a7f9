// LevelDB.

#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>

#include <memory>

#include "phases.h"

namespace {

void check(const leveldb::Status& status) {
    if (!status.ok()) fail(status.ToString());
}

leveldb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

class Engine {
  public:
    Engine(const std::string& dir, const Settings& settings) {
        leveldb::Options options;
        options.create_if_missing = true;
        if (!settings.defaults()) {
            cache_.reset(leveldb::NewLRUCache(settings.cache_bytes));
            filter_.reset(leveldb::NewBloomFilterPolicy(FILTER_BITS));
            options.write_buffer_size = settings.memtable_bytes;
            options.block_cache = cache_.get();
            options.filter_policy = filter_.get();
            options.compression = leveldb::kNoCompression;
        }
        leveldb::DB* db;
        check(leveldb::DB::Open(options, dir, &db));
        db_.reset(db);
    }

    void put(const Key& key, const Value& value) { check(db_->Put({}, slice(key.view()), slice(value.view()))); }

    // Compacting a range that holds nothing flushes the memtable and does no more.
    void settle() {
        leveldb::Slice end("\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9);
        db_->CompactRange(&end, &end);
    }

    template <class Row>
    void scan(Row row) {
        leveldb::ReadOptions options;
        options.fill_cache = false;
        std::unique_ptr<leveldb::Iterator> rows(db_->NewIterator(options));
        for (rows->SeekToFirst(); rows->Valid(); rows->Next()) {
            auto key = rows->key(), value = rows->value();
            row(std::string_view(key.data(), key.size()), std::string_view(value.data(), value.size()));
        }
        check(rows->status());
    }

    class Reader {
      public:
        Reader(Engine& engine, bool) : db_(*engine.db_) {}
        std::optional<std::string_view> get(const Key& key) {
            auto status = db_.Get({}, slice(key.view()), &value_);
            if (status.IsNotFound()) return std::nullopt;
            check(status);
            return value_;
        }

      private:
        leveldb::DB& db_;
        std::string value_;
    };

  private:
    std::unique_ptr<leveldb::Cache> cache_;
    std::unique_ptr<const leveldb::FilterPolicy> filter_;
    std::unique_ptr<leveldb::DB> db_;  // the first to go
};

}  // namespace

int main(int argc, char** argv) { return main_of<Engine>("leveldb", argc, argv); }
