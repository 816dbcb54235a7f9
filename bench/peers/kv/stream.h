// The keys and values of `make bench-kv`, and the orders they are asked for in: the same as in bench/src/kv/stream.rs.
// Both sides print the checksum of a stream, and the harness compares them.
//
// Key `number` is mix(number + KEYS), 8 bytes, big-endian: mix is a bijection, so keys differ and come in random order.
// A value is 12 words of 8 bytes, little-endian, made from the key and a version: 0 as written first, 1 as overwritten.

#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

constexpr uint64_t GOLDEN = 0x9e3779b97f4a7c15;
constexpr uint64_t KEYS = 0x5851f42d4c957f2d;
constexpr size_t KEY_BYTES = 8;
constexpr size_t VALUE_WORDS = 12;
constexpr size_t VALUE_BYTES = 8 * VALUE_WORDS;

// Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators".
inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

struct Key {
    std::array<char, KEY_BYTES> bytes;
    explicit Key(uint64_t number) {
        uint64_t swapped = __builtin_bswap64(mix(number + KEYS));
        std::memcpy(bytes.data(), &swapped, KEY_BYTES);
    }
    std::string_view view() const { return {bytes.data(), KEY_BYTES}; }
};

struct Value {
    std::array<uint64_t, VALUE_WORDS> words;
    Value(const Key& key, uint64_t version) {
        uint64_t state;
        std::memcpy(&state, key.bytes.data(), KEY_BYTES);
        state ^= version * 0xd6e8feb86659fd93;
        for (size_t word = 0; word < VALUE_WORDS; word++) words[word] = mix(state + (word + 1) * GOLDEN);
    }
    std::string_view view() const { return {reinterpret_cast<const char*>(words.data()), VALUE_BYTES}; }
};

// The `at`-th of 0..count in an order that `salt` gives: a bijection of the next power of two, walked until it is below.
class Order {
  public:
    Order(uint64_t count, uint64_t salt) : count_(count), salt_(mix(salt)) {
        while (bits_ < 64 && (uint64_t{1} << bits_) < count) bits_++;
        mask_ = bits_ == 64 ? ~uint64_t{0} : (uint64_t{1} << bits_) - 1;
    }
    uint64_t at(uint64_t x) const {
        do {
            x = (x + salt_) & mask_;
            x = ((x ^ (x >> (bits_ / 2))) * 0xbf58476d1ce4e5b9) & mask_;
            x = ((x ^ (x >> (bits_ / 2))) * 0x94d049bb133111eb) & mask_;
            x ^= x >> (bits_ / 2);
        } while (x >= count_);
        return x;
    }

  private:
    uint64_t count_, salt_, mask_;
    int bits_ = 2;
};

// One of 0..count, with repeats.
inline uint64_t pick(uint64_t count, uint64_t at) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(mix(at + GOLDEN)) * count) >> 64);
}

// What a row adds to the checksum of a scan, which does not depend on the order.
inline uint64_t checksum_of(std::string_view key, std::string_view value) {
    uint64_t sum, word;
    std::memcpy(&sum, key.data(), KEY_BYTES);
    for (size_t at = 0; at < VALUE_BYTES; at += 8) {
        std::memcpy(&word, value.data() + at, 8);
        sum = ((sum << 7) | (sum >> 57)) ^ word;
    }
    return mix(sum);
}

// The checksum of a stream of `count` keys: of its first rows in two orders and versions, and of what is picked.
inline uint64_t checksum_of_stream(uint64_t count) {
    uint64_t sum = 0;
    Order order(count, 1);
    for (uint64_t at = 0; at < 1000 && at < count; at++) {
        Key first(at), second(order.at(at));
        sum = mix(sum + checksum_of(first.view(), Value(first, 0).view()));
        sum = mix(sum + checksum_of(second.view(), Value(second, 1).view()) + pick(count, at));
    }
    return sum;
}
