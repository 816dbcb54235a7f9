// The same trigger in C.
//
// clang --target=wasm32 -O2 -nostdlib -fno-builtin -Wl,--no-entry -Wl,--strip-all -o stamp.wasm stamp.c

#include <stdint.h>

#define IMPORT(name) __attribute__((import_module("quire_1"), import_name(name)))
#define EXPORT(name) __attribute__((export_name(name)))

IMPORT("type") int32_t type_of(int32_t source, const char* path, int32_t path_len);
IMPORT("get_i64") int32_t get_i64(int32_t source, const char* path, int32_t path_len, int64_t* out);
IMPORT("get_string") int32_t get_string(
    int32_t source, const char* path, int32_t path_len, char* out, int32_t cap);
IMPORT("emit") void emit(const char* from, int32_t bytes);
IMPORT("fail") void fail(const char* from, int32_t bytes);

enum { AFTER = 0, BEFORE = 1, WRITE = 3 };
enum { ABSENT = 0, STRING = 6 };
enum { CAP = 1000 };

static char before[CAP], after[CAP], patch[100];
static int32_t length;

// The integer at `path`; 0 if there is none.
static uint64_t number(int32_t source, const char* path) {
    int64_t value = 0;
    int32_t bytes = 0;
    while (path[bytes]) bytes++;
    get_i64(source, path, bytes, &value);
    return (uint64_t)value;
}

static void push(const char* text) {
    while (*text) patch[length++] = *text++;
}

static void push_number(uint64_t value) {
    char digits[21];
    int32_t first = 20;
    digits[first] = 0;
    do {
        digits[--first] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    push(digits + first);
}

EXPORT("quire_1_trigger") void trigger(void) {
    int32_t type = type_of(AFTER, "title", 5);
    if (type != ABSENT && type != STRING) {
        fail("the title is no string", 22);
        return;
    }
    int32_t bytes = get_string(AFTER, "title", 5, after, CAP);
    // A row that is removed has no title either.
    if (bytes < 0 || bytes > CAP) return;
    int32_t same = get_string(BEFORE, "title", 5, before, CAP) == bytes;
    for (int32_t at = 0; same && at < bytes; at++) same = before[at] == after[at];
    if (same) return;
    length = 0;
    push("{\"changed\":");
    push_number(number(WRITE, "time"));
    push(",\"changes\":");
    push_number(number(BEFORE, "changes") + 1);
    push("}");
    emit(patch, length);
}
