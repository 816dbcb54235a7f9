// The ids of documents with a value in RocksDB, as bench/src/converged/ids.rs has them of Quire:
//
//   ids-rocksdb clustered|keys COUNT DIRECTORY
//
// `keys` has a key for each value and document. `clustered` has one for each value and 65,536 documents, whose value is the set
// of their low halves, a sorted array or a bitmap; a merge operator adds and removes.

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "machine.h"

namespace {

constexpr size_t BITMAP_BYTES = 8192;
constexpr size_t ARRAY_MAX = 4096;
constexpr double SECONDS = 1.5;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

void check(const rocksdb::Status& status) {
    if (!status.ok()) fail(status.ToString());
}

uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

const std::vector<std::pair<std::string, uint64_t>> ASKED = {{"m", 5}, {"c", 50}, {"k", 5000}, {"x", 500000}};

uint64_t share(uint64_t count, uint64_t part) { return std::max<uint64_t>(count / part, 10); }

std::string value_of(uint64_t number, uint64_t count, bool is_updated) {
    uint64_t left = mix(number ^ (is_updated ? 0x55 : 0)) % count;
    for (auto& [value, part] : ASKED) {
        uint64_t documents = share(count, part);
        if (left < documents) return value;
        left -= documents;
    }
    return "o" + std::to_string(left % 1000);
}

// A set of low halves: an array of at most ARRAY_MAX, or a bitmap.
struct Container {
    std::vector<uint16_t> array;
    std::vector<uint64_t> bits;

    void read(std::string_view bytes) {
        if (bytes.size() == BITMAP_BYTES) {
            bits.resize(BITMAP_BYTES / 8);
            memcpy(bits.data(), bytes.data(), BITMAP_BYTES);
        } else {
            array.resize(bytes.size() / 2);
            memcpy(array.data(), bytes.data(), bytes.size());
        }
    }

    void change(uint16_t low, bool is_added) {
        if (!bits.empty()) {
            uint64_t bit = uint64_t{1} << (low & 63);
            is_added ? bits[low >> 6] |= bit : bits[low >> 6] &= ~bit;
            return;
        }
        auto at = std::lower_bound(array.begin(), array.end(), low);
        bool is_there = at != array.end() && *at == low;
        if (is_added && !is_there) array.insert(at, low);
        if (!is_added && is_there) array.erase(at);
        if (array.size() > ARRAY_MAX) {
            bits.assign(BITMAP_BYTES / 8, 0);
            for (uint16_t one : array) bits[one >> 6] |= uint64_t{1} << (one & 63);
            array.clear();
        }
    }

    void write(std::string* out) const {
        out->clear();
        if (bits.empty())
            out->assign(reinterpret_cast<const char*>(array.data()), array.size() * 2);
        else
            out->assign(reinterpret_cast<const char*>(bits.data()), BITMAP_BYTES);
    }
};

// An operand is a row of changes of four bytes: the low half, whether it is added, and nothing.
void append_change(std::string* operand, uint16_t low, bool is_added) {
    operand->append({static_cast<char>(low & 255), static_cast<char>(low >> 8), static_cast<char>(is_added), 0});
}

class MergeIds : public rocksdb::MergeOperator {
  public:
    const char* Name() const override { return "ids"; }

    bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
        Container all;
        if (in.existing_value) all.read(in.existing_value->ToStringView());
        for (auto& operand : in.operand_list) {
            for (size_t at = 0; at + 4 <= operand.size(); at += 4) {
                auto byte = [&](size_t place) { return static_cast<uint8_t>(operand[at + place]); };
                all.change(static_cast<uint16_t>(byte(0) | byte(1) << 8), byte(2) != 0);
            }
        }
        all.write(&out->new_value);
        return true;
    }

    bool PartialMerge(const rocksdb::Slice&, const rocksdb::Slice& left, const rocksdb::Slice& right, std::string* out,
                      rocksdb::Logger*) const override {
        out->assign(left.data(), left.size());
        out->append(right.data(), right.size());
        return true;
    }
};

void append_big(std::string* out, uint64_t number, int bytes) {
    for (int byte = bytes - 1; byte >= 0; byte--) out->push_back(static_cast<char>(number >> (8 * byte)));
}

uint64_t big(std::string_view bytes) {
    uint64_t number = 0;
    for (char byte : bytes) number = number << 8 | static_cast<uint8_t>(byte);
    return number;
}

class Index {
  public:
    Index(const std::string& dir, bool is_clustered) : is_clustered_(is_clustered) {
        rocksdb::Options options;
        options.create_if_missing = true;
        rocksdb::BlockBasedTableOptions table;
        table.block_cache = rocksdb::NewLRUCache(size_t{512} << 20);
        options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
        options.write_buffer_size = size_t{64} << 20;
        options.compression = rocksdb::kLZ4Compression;
        if (is_clustered) options.merge_operator = std::make_shared<MergeIds>();
        rocksdb::DB* db;
        check(rocksdb::DB::Open(options, dir, &db));
        db_.reset(db);
        quick_.disableWAL = true;
    }

    void change(const std::string& value, uint64_t number, bool is_added) {
        std::string key = value + '\0';
        if (!is_clustered_) {
            append_big(&key, number, 4);
            check(is_added ? db_->Put(quick_, key, "") : db_->Delete(quick_, key));
            return;
        }
        append_big(&key, number >> 16, 2);
        append_change(&pending_[key], static_cast<uint16_t>(number), is_added);
        if (++changes_ % 100000 == 0) flush();
    }

    // What changed together is one operand a key.
    void flush() {
        rocksdb::WriteBatch batch;
        for (auto& [key, operand] : pending_) check(batch.Merge(key, operand));
        check(db_->Write(quick_, &batch));
        pending_.clear();
    }

    void settle(bool whole) {
        flush();
        check(db_->Flush({}));
        if (whole) check(db_->CompactRange({}, nullptr, nullptr));
    }

    template <class Each>
    void visit(const std::string& value, Each each) {
        std::string from = value + '\0', to = value + '\1';
        rocksdb::ReadOptions options;
        rocksdb::Slice end(to);
        options.iterate_upper_bound = &end;
        std::unique_ptr<rocksdb::Iterator> rows(db_->NewIterator(options));
        for (rows->Seek(from); rows->Valid(); rows->Next()) {
            auto key = rows->key().ToStringView().substr(from.size());
            if (!is_clustered_) {
                each(big(key));
                continue;
            }
            auto bytes = rows->value().ToStringView();
            uint64_t first = big(key) << 16;
            if (bytes.size() == BITMAP_BYTES) {
                for (size_t at = 0; at < BITMAP_BYTES / 8; at++) {
                    uint64_t word;
                    memcpy(&word, bytes.data() + at * 8, 8);
                    for (; word; word &= word - 1) each(first + at * 64 + static_cast<uint64_t>(__builtin_ctzll(word)));
                }
            } else {
                for (size_t at = 0; at < bytes.size(); at += 2) {
                    uint16_t low;
                    memcpy(&low, bytes.data() + at, 2);
                    each(first + low);
                }
            }
        }
        check(rows->status());
    }

    uint64_t bytes() {
        uint64_t bytes = 0;
        check(db_->GetIntProperty("rocksdb.total-sst-files-size", &bytes) ? rocksdb::Status::OK()
                                                                        : rocksdb::Status::NotFound());
        return bytes;
    }

  private:
    bool is_clustered_;
    rocksdb::WriteOptions quick_;
    std::map<std::string, std::string> pending_;
    uint64_t changes_ = 0;
    std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) fail("usage: ids-rocksdb clustered|keys COUNT DIRECTORY");
    uint64_t count = std::stoull(argv[2]);
    Index index(argv[3], std::string(argv[1]) == "clustered");
    double begun = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    for (uint64_t number = 0; number < count; number++) index.change(value_of(number, count, false), number, true);
    index.settle(true);
    double loaded = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - begun;
    std::set<uint64_t> updated;
    for (uint64_t number = 0; number < count / 100; number++) updated.insert(mix(number ^ 0x1dea) % count);
    for (uint64_t number : updated) {
        index.change(value_of(number, count, false), number, false);
        index.change(value_of(number, count, true), number, true);
    }
    index.settle(false);
    std::string figures = "[\"loaded\",\"CPU s\"," + std::to_string(loaded) + "],[\"index\",\"MB\"," +
                          std::to_string(static_cast<double>(index.bytes()) / 1e6) + "]";
    std::string answers;
    for (auto& [value, part] : ASKED) {
        uint64_t ids = 0, sum = 0;
        index.visit(value, [&](uint64_t id) { ids++, sum += id; });
        std::vector<double> cpu, wall;
        double end = seconds_of(CLOCK_MONOTONIC) + SECONDS;
        uint64_t each = std::max<uint64_t>(1, 200000 / (ids + 1000));
        while (seconds_of(CLOCK_MONOTONIC) < end || cpu.size() < 3) {
            double cpu_before = seconds_of(CLOCK_PROCESS_CPUTIME_ID), before = seconds_of(CLOCK_MONOTONIC);
            for (uint64_t time = 0; time < each; time++) {
                uint64_t again = 0;
                index.visit(value, [&](uint64_t id) { again += id; });
                if (again != sum) fail("an answer changed");
            }
            cpu.push_back((seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_before) * 1e6 / static_cast<double>(each));
            wall.push_back((seconds_of(CLOCK_MONOTONIC) - before) * 1e6 / static_cast<double>(each));
        }
        std::sort(cpu.begin(), cpu.end());
        std::sort(wall.begin(), wall.end());
        std::string name = "ids of " + std::to_string(share(count, part)) + " documents";
        figures += ",[\"" + name + "\",\"CPU µs\"," + std::to_string(cpu[cpu.size() / 2]) + "],[\"" + name +
                   ", wall\",\"µs\"," + std::to_string(wall[wall.size() / 2]) + "]";
        answers += (answers.empty() ? "\"" : ",\"") + ("count of " + value) + "\":[" + std::to_string(ids) + "],\"sum of " + value +
                   "\":[" + std::to_string(sum) + "]";
    }
    std::cout << "{\"figures\":[" << figures << "],\"answers\":{" << answers << "}}" << std::endl;
}
