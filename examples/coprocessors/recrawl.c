// The same coprocessor in C.
//
// clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -Wl,--strip-all -o recrawl.wasm recrawl.c

#include <stdint.h>

#define IMPORT(name) __attribute__((import_module("quire_1"), import_name(name)))
#define EXPORT(name) __attribute__((export_name(name)))

IMPORT("get_i64") int32_t get_i64(int32_t source, const char* path, int32_t path_len, int64_t* out);

enum { ROW = 0, ARGUMENT = 2 };

// The integer at `path`; 0 if there is none.
static int64_t number(int32_t source, const char* path) {
    int64_t value = 0;
    int32_t length = 0;
    while (path[length]) length++;
    get_i64(source, path, length, &value);
    return value;
}

EXPORT("quire_1_filter") int32_t filter(void) {
    int64_t due;
    if (__builtin_add_overflow(number(ROW, "fetched"), number(ROW, "period"), &due)) return 0;
    return due <= number(ARGUMENT, "now");
}
