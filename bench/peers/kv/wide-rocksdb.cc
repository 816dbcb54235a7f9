// Rows in RocksDB, each as one value: a peer of `quire-bench wide`.
//
// wide-rocksdb load|overwrite|check DIR LOG_DIR ROWS VALUE_BYTES OVERWRITES MEMORY_BYTES
//
// `overwrite` replaces random rows and waits until all is compacted; `check` reads every row and looks at its length and key.
// Values do not compress.

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

namespace {

void check(const rocksdb::Status& status) {
    if (status.ok()) return;
    fprintf(stderr, "rocksdb: %s\n", status.ToString().c_str());
    exit(1);
}

uint64_t next(uint64_t& state) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

std::string key_of(uint64_t row) {
    char key[32];
    snprintf(key, sizeof key, "page-%08llu", static_cast<unsigned long long>(row));
    return key;
}

void put(rocksdb::DB& db, uint64_t row, uint64_t seed, std::string& value) {
    uint64_t state = (row << 24 ^ seed) * 0x9E3779B97F4A7C15 + 1;
    for (size_t at = 0; at < value.size(); at++) value[at] = static_cast<char>(at % 8 ? state >> at % 8 * 8 : next(state));
    check(db.Put({}, key_of(row), value));
}

uint64_t number(rocksdb::DB& db, const char* property) {
    uint64_t value = 0;
    return db.GetIntProperty(property, &value) ? value : 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 8) return fprintf(stderr, "usage: see the head of wide-rocksdb.cc\n"), 2;
    std::string phase = argv[1];
    uint64_t rows = strtoull(argv[4], nullptr, 10), bytes = strtoull(argv[5], nullptr, 10);
    uint64_t overwrites = strtoull(argv[6], nullptr, 10), memory = strtoull(argv[7], nullptr, 10);
    rocksdb::Options options;
    options.create_if_missing = true;
    options.wal_dir = argv[3];
    options.compression = rocksdb::kNoCompression;
    options.write_buffer_size = memory / 4;
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(memory / 4);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB* opened;
    check(rocksdb::DB::Open(options, argv[2], &opened));
    std::unique_ptr<rocksdb::DB> db(opened);
    std::string value(bytes, 0);
    if (phase == "load") {
        for (uint64_t row = 0; row < rows; row++) put(*db, row, 0, value);
        check(db->CompactRange({}, nullptr, nullptr));
    } else if (phase == "overwrite") {
        uint64_t state = 1;
        for (uint64_t at = 0; at < overwrites; at++) put(*db, (next(state) >> 11) % rows, at + 1, value);
        check(db->Flush({}));
        while (number(*db, "rocksdb.compaction-pending") || number(*db, "rocksdb.num-running-compactions"))
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } else {
        uint64_t found = 0;
        std::unique_ptr<rocksdb::Iterator> all(db->NewIterator({}));
        for (all->SeekToFirst(); all->Valid(); all->Next(), found++) {
            if (all->key() != key_of(found) || all->value().size() != bytes) return fprintf(stderr, "rocksdb: a wrong row\n"), 1;
        }
        check(all->status());
        if (found != rows) return fprintf(stderr, "rocksdb: rows are missing\n"), 1;
    }
    check(db->Close());
}
