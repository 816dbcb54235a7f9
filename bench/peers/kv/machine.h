// What the machine says of this process, and how long operations took: as bench/src/kv/machine.rs.

#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

inline double seconds_of(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

inline uint64_t nanos() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

// A number after `name` in a file of /proc.
inline uint64_t number_in(const char* path, const std::string& name) {
    std::ifstream file(path);
    for (std::string word; file >> word;) {
        uint64_t number;
        if (word == name && file >> number) return number;
    }
    throw std::runtime_error(std::string("no ") + name + " in " + path);
}

// What a process has used so far.
struct Used {
    double wall_seconds = seconds_of(CLOCK_MONOTONIC);
    double cpu_seconds = seconds_of(CLOCK_PROCESS_CPUTIME_ID);  // user and system, of all threads
    uint64_t written_bytes = number_in("/proc/self/io", "write_bytes:");
    uint64_t cancelled_bytes = number_in("/proc/self/io", "cancelled_write_bytes:");
    uint64_t read_bytes = number_in("/proc/self/io", "read_bytes:");
};

// The most resident memory is counted from here on.
inline void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

inline uint64_t peak_memory_bytes() { return number_in("/proc/self/status", "VmHWM:") << 10; }

template <class Each>
void each_file(const std::string& dir, Each each) {
    for (auto& entry : std::filesystem::recursive_directory_iterator(dir))
        if (entry.is_regular_file()) each(entry.path());
}

// Bytes of disk that all files below `dir` take: allocated blocks, not lengths.
inline uint64_t disk_bytes(const std::string& dir) {
    uint64_t total = 0;
    each_file(dir, [&](const std::filesystem::path& path) {
        struct stat file;
        if (stat(path.c_str(), &file) == 0) total += static_cast<uint64_t>(file.st_blocks) * 512;
    });
    return total;
}

// Makes every file below `dir` durable.
inline void sync_files(const std::string& dir) {
    each_file(dir, [](const std::filesystem::path& path) {
        int file = open(path.c_str(), O_RDONLY);
        if (file < 0) return;  // An engine may have deleted it meanwhile.
        int failed = fsync(file);
        close(file);
        if (failed) throw std::runtime_error("cannot sync " + path.string());
    });
}

// How long operations took, in buckets of 1/32 of a power of two nanoseconds.
class Histogram {
  public:
    void add(uint64_t took) {
        counts_[bucket(took)]++;
        count_++;
        if (took > max_) max_ = took;
    }
    void add(const Histogram& other) {
        for (size_t at = 0; at < counts_.size(); at++) counts_[at] += other.counts_[at];
        count_ += other.count_;
        if (other.max_ > max_) max_ = other.max_;
    }
    // Microseconds that this part (0 to 1) of the operations took at most.
    double micros(double part) const {
        auto rank = static_cast<uint64_t>(part * static_cast<double>(count_));
        for (size_t at = 0; at < counts_.size(); at++) {
            if (rank < counts_[at]) return static_cast<double>(std::min(ceiling(at), max_)) / 1e3;
            rank -= counts_[at];
        }
        return max_micros();
    }
    double max_micros() const { return static_cast<double>(max_) / 1e3; }

  private:
    static size_t bucket(uint64_t took) {
        if (took < 64) return took;
        int shift = 58 - __builtin_clzll(took);
        return static_cast<size_t>(shift) * 32 + (took >> shift);
    }
    static uint64_t ceiling(size_t bucket) {
        if (bucket < 64) return bucket;
        size_t shift = bucket / 32 - 1;
        return ((bucket % 32 + 33) << shift) - 1;
    }
    std::array<uint64_t, 64 * 32> counts_{};
    uint64_t count_ = 0, max_ = 0;
};
