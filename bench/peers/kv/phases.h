// The phases of `make bench-kv` for an engine with a C or C++ interface: as bench/src/kv/phases.rs has them.
//
// An engine has
//   Engine(const std::string& dir, const Settings&)   which opens its files in `dir`, or makes them,
//   void put(const Key&, const Value&)                which survives the end of the process once it was settled,
//   void settle()                                     which flushes what is in memory, and returns then,
//   void scan(row)                                    which calls row(key, value) for each in order,
//   class Reader(Engine&, bool of_writer)             for one thread; `of_writer`: it sees what this thread puts,
//     std::optional<std::string_view> get(const Key&) valid until the next.

#pragma once

#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include "machine.h"
#include "stream.h"

// What an engine is opened with: these sizes, a filter where it has them, no compression; without sizes, its defaults.
struct Settings {
    uint64_t count, reads;
    size_t memtable_bytes, cache_bytes;
    bool defaults() const { return memtable_bytes == 0; }
};

constexpr int FILTER_BITS = 10;

// Every so many reads one is timed; every write is.
constexpr uint64_t SAMPLE = 16;
// Writes in a transaction, where an engine has no cheaper way to write.
constexpr uint64_t TRANSACTION_PUTS = 1000;
// Reads after a cold open.
constexpr uint64_t COLD_READS = 1000;

[[noreturn]] inline void fail(const std::string& why) { throw std::runtime_error(why); }

template <class Engine>
class Phases {
  public:
    Phases(const char* name, std::string dir, Settings settings)
        : name_(name), dir_(std::move(dir)), settings_(settings), count_(settings.count) {}

    void run() {
        line("stream", 0, Used(), Histogram(), checksum_of_stream(count_));
        Engine engine(dir_, settings_);
        write(engine);
        settle(engine);
        const uint64_t reads = settings_.reads;
        phase("read", reads, [&](Histogram& times) { read(engine, times, Order(count_, 1), 0, reads); });
        phase("missing", count_ / 10, [&](Histogram& times) { missing(engine, times); });
        phase("read, 2 threads", reads, [&](Histogram& times) { read_by_two(engine, times, reads); });
        scan(engine);
        phase("mixed", reads / 2, [&](Histogram& times) { mixed(engine, times, reads / 2); });
        engine.settle();
    }

    // Of files that are not in memory: the caller has seen to that.
    void open() {
        std::optional<Engine> engine;
        phase("cold open", 1, [&](Histogram& times) {
            uint64_t begun = nanos();
            engine.emplace(dir_, settings_);
            typename Engine::Reader reader(*engine, false);
            expect(reader.get(Key(0)), Key(0), nullptr);
            times.add(nanos() - begun);
        });
        phase("cold reads", COLD_READS, [&](Histogram& times) {
            typename Engine::Reader reader(*engine, false);
            for (uint64_t at = 0; at < COLD_READS; at++) {
                Key key(pick(count_, at));
                timed(times, [&] { expect(reader.get(key), key, nullptr); });
            }
        });
    }

  private:
    template <class Operation>
    static void timed(Histogram& times, Operation operation) {
        uint64_t begun = nanos();
        operation();
        times.add(nanos() - begun);
    }

    // A value is right if it is the one of its version; of either, where no version is given.
    static void expect(std::optional<std::string_view> found, const Key& key, const uint64_t* version) {
        if (!found) fail("a key is not there");
        if (version ? *found == Value(key, *version).view()
                    : *found == Value(key, 0).view() || *found == Value(key, 1).view())
            return;
        fail("a value is not what was written");
    }

    void write(Engine& engine) {
        phase("write", count_, [&](Histogram& times) {
            uint64_t before = nanos();
            for (uint64_t number = 0; number < count_; number++) {
                Key key(number);
                engine.put(key, Value(key, 0));
                uint64_t after = nanos();
                times.add(after - before);
                before = after;
            }
        });
    }

    // Until the process is quiet: for half a second, no bytes written and next to no CPU used. That time is not counted.
    void settle(Engine& engine) {
        reset_peak_memory();
        Used before;
        engine.settle();
        sync_files(dir_);
        Used last, quiet;
        do {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            Used now;
            if (now.written_bytes != quiet.written_bytes || now.cpu_seconds > quiet.cpu_seconds + 0.005) quiet = now;
            last = now;
        } while (last.wall_seconds < quiet.wall_seconds + 0.5);
        sync_files(dir_);
        quiet.wall_seconds += Used().wall_seconds - last.wall_seconds;
        line("settle", count_, before, Histogram(), 0, &quiet);
    }

    void read(Engine& engine, Histogram& times, const Order& order, uint64_t from, uint64_t to) {
        typename Engine::Reader reader(engine, false);
        const uint64_t version = 0;
        for (uint64_t at = from; at < to; at++) {
            Key key(order.at(at));
            if (at % SAMPLE == 0)
                timed(times, [&] { expect(reader.get(key), key, &version); });
            else
                expect(reader.get(key), key, &version);
        }
    }

    void read_by_two(Engine& engine, Histogram& times, uint64_t reads) {
        Histogram others;
        std::exception_ptr failed;
        Order order(count_, 2);
        std::thread other([&] {
            try {
                read(engine, others, order, 0, reads / 2);
            } catch (...) {
                failed = std::current_exception();
            }
        });
        try {
            read(engine, times, order, reads / 2, reads);
        } catch (...) {
            other.join();
            throw;
        }
        other.join();
        if (failed) std::rethrow_exception(failed);
        times.add(others);
    }

    void missing(Engine& engine, Histogram& times) {
        typename Engine::Reader reader(engine, false);
        for (uint64_t at = 0; at < count_ / 10; at++) {
            Key key(count_ + at);
            auto ask = [&] {
                if (reader.get(key)) fail("a key is there that was never written");
            };
            if (at % SAMPLE == 0)
                timed(times, ask);
            else
                ask();
        }
    }

    void scan(Engine& engine) {
        uint64_t rows = 0, sum = 0;
        std::array<char, KEY_BYTES> last{};
        Used before;
        reset_peak_memory();
        engine.scan([&](std::string_view key, std::string_view value) {
            if (key.size() != KEY_BYTES || value.size() != VALUE_BYTES) fail("a row of another size");
            if (rows > 0 && std::memcmp(key.data(), last.data(), KEY_BYTES) <= 0) fail("rows out of order");
            std::memcpy(last.data(), key.data(), KEY_BYTES);
            sum += checksum_of(key, value);
            rows++;
        });
        if (rows != count_) fail("a scan gave " + std::to_string(rows) + " rows");
        line("scan", count_, before, Histogram(), sum);
    }

    void mixed(Engine& engine, Histogram& times, uint64_t operations) {
        std::vector<bool> overwritten(count_);
        typename Engine::Reader reader(engine, true);
        uint64_t before = nanos();
        for (uint64_t at = 0; at < operations; at++) {
            uint64_t number = pick(count_, (uint64_t{1} << 32) + at);
            Key key(number);
            if (at % 2 == 0) {
                engine.put(key, Value(key, 1));
                overwritten[number] = true;
            } else {
                uint64_t version = overwritten[number];
                expect(reader.get(key), key, &version);
            }
            uint64_t after = nanos();
            times.add(after - before);
            before = after;
        }
    }

    template <class Work>
    void phase(const char* phase, uint64_t operations, Work work) {
        Histogram times;
        reset_peak_memory();
        Used before;
        work(times);
        line(phase, operations, before, times, 0);
    }

    void line(const char* phase, uint64_t operations, const Used& before, const Histogram& times, uint64_t checksum,
              const Used* until = nullptr) {
        Used now;
        if (until) now = *until;
        std::printf(
            "{\"engine\":\"%s\",\"phase\":\"%s\",\"operations\":%lu,\"wall_seconds\":%.6f,\"cpu_seconds\":%.6f,"
            "\"p50_micros\":%.3f,\"p99_micros\":%.3f,\"p999_micros\":%.3f,\"max_micros\":%.3f,"
            "\"written_bytes\":%lu,\"cancelled_bytes\":%lu,\"read_bytes\":%lu,\"disk_bytes\":%lu,\"peak_memory_bytes\":%lu,\"checksum\":%lu}\n",
            name_, phase, operations, now.wall_seconds - before.wall_seconds, now.cpu_seconds - before.cpu_seconds,
            times.micros(0.5), times.micros(0.99), times.micros(0.999), times.max_micros(),
            now.written_bytes - before.written_bytes, now.cancelled_bytes - before.cancelled_bytes,
            now.read_bytes - before.read_bytes, disk_bytes(dir_), peak_memory_bytes(), checksum);
        std::fflush(stdout);
    }

    const char* name_;
    std::string dir_;
    Settings settings_;
    uint64_t count_;
};

// `run|open DIR COUNT READS [MEMTABLE_MIB CACHE_MIB]`
template <class Engine>
int main_of(const char* name, int argc, char** argv) {
    try {
        if (argc != 5 && argc != 7) fail("usage: run|open DIR COUNT READS [MEMTABLE_MIB CACHE_MIB]");
        Settings settings{std::stoull(argv[3]), std::stoull(argv[4]), 0, 0};
        if (argc == 7) {
            settings.memtable_bytes = std::stoull(argv[5]) << 20;
            settings.cache_bytes = std::stoull(argv[6]) << 20;
        }
        std::filesystem::create_directories(argv[2]);
        Phases<Engine> phases(name, argv[2], settings);
        std::string_view(argv[1]) == "open" ? phases.open() : phases.run();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
        return 1;
    }
}
