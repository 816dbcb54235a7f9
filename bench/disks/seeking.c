/* A disk that seeks: a plugin of nbdkit that serves a file as slowly as a hard disk would.
 *
 *   nbdkit seeking.so file=IMAGE speed=FILE
 *
 * FILE has two numbers: the nanoseconds of a seek over half of the disk, and the bytes that pass the
 * head in a second. As long as it is missing or empty, nothing is slowed down.
 *
 * One request is served at a time. One that begins where the last one ended takes the time of its
 * bytes. Any other takes a seek too: a tenth of it is there however near it is, and it grows with
 * the square root of the distance; then half a turn of the disk, which is half of a seek. Of those
 * that wait, the one with the shortest seek is next, as in disks with command queueing; one that
 * has waited for 125 seeks goes first.
 */

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL
#define NANOS 1000000000LL
/* Seeks for which a request waits at most while others are nearer: a second of a disk of 8 ms. */
#define PATIENCE_SEEKS 125

struct waiting {
    int64_t at, since;
    struct waiting *next;
};

static char *file, *speed;
static int image = -1;
static int64_t image_bytes;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct waiting *first;
static int busy;
/* Where the head is, and since when. */
static int64_t head, head_since;

static int64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * NANOS + at.tv_nsec;
}

/* False if nothing is to be slowed down. */
static int is_slow(int64_t *seek, int64_t *bytes_per_second) {
    long long a, b;
    FILE *in = speed ? fopen(speed, "r") : NULL;
    if (!in) return 0;
    int read = fscanf(in, "%lld %lld", &a, &b);
    fclose(in);
    *seek = a;
    *bytes_per_second = b;
    return read == 2 && b > 0;
}

static int64_t position_nanos(int64_t at, int64_t seek) {
    if (at == head) return 0;
    double part = fabs((double)(at - head)) / image_bytes;
    return seek * (0.1 + 0.9 * sqrt(2 * part)) + seek / 2;
}

/* Which request is served next. */
static struct waiting *next_one(int64_t seek) {
    struct waiting *best = first, *oldest = first;
    for (struct waiting *one = first; one; one = one->next) {
        if (position_nanos(one->at, seek) < position_nanos(best->at, seek)) best = one;
        if (one->since < oldest->since) oldest = one;
    }
    return now() - oldest->since > PATIENCE_SEEKS * seek ? oldest : best;
}

/* Waits for as long as a hard disk takes. */
static void serve(int64_t at, int64_t bytes) {
    int64_t seek, bytes_per_second;
    if (!is_slow(&seek, &bytes_per_second)) return;
    struct waiting self = {.at = at, .since = now()};
    pthread_mutex_lock(&lock);
    self.next = first;
    first = &self;
    while (busy || next_one(seek) != &self) pthread_cond_wait(&changed, &lock);
    busy = 1;
    struct waiting **link = &first;
    while (*link != &self) link = &(*link)->next;
    *link = self.next;
    /* A request that was there when the last one ended begins then: sleeping late adds nothing. */
    int64_t begin = self.since > head_since ? self.since : head_since;
    int64_t end = begin + position_nanos(at, seek) + (int64_t)((double)bytes / bytes_per_second * NANOS);
    pthread_mutex_unlock(&lock);
    struct timespec until = {.tv_sec = end / NANOS, .tv_nsec = end % NANOS};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {}
    pthread_mutex_lock(&lock);
    head = at + bytes;
    head_since = end;
    busy = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static int seeking_config(const char *key, const char *value) {
    char **to = strcmp(key, "file") == 0 ? &file : strcmp(key, "speed") == 0 ? &speed : NULL;
    if (!to) {
        nbdkit_error("unknown parameter '%s'", key);
        return -1;
    }
    *to = nbdkit_absolute_path(value);
    return *to ? 0 : -1;
}

static int seeking_get_ready(void) {
    struct stat known;
    image = file ? open(file, O_RDWR | O_CLOEXEC) : -1;
    if (image < 0 || fstat(image, &known) < 0) {
        nbdkit_error("file: %s", file ? strerror(errno) : "not given");
        return -1;
    }
    image_bytes = known.st_size;
    return 0;
}

static void *seeking_open(int readonly) {
    (void)readonly;
    return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t seeking_get_size(void *handle) {
    (void)handle;
    return image_bytes;
}

static int seeking_pread(void *handle, void *to, uint32_t count, uint64_t at, uint32_t flags) {
    (void)handle, (void)flags;
    serve(at, count);
    for (uint32_t done = 0; done < count;) {
        ssize_t read = pread(image, (char *)to + done, count - done, at + done);
        if (read <= 0) {
            nbdkit_error("pread: %s", read < 0 ? strerror(errno) : "past the end");
            return -1;
        }
        done += read;
    }
    return 0;
}

static int seeking_pwrite(void *handle, const void *from, uint32_t count, uint64_t at, uint32_t flags) {
    (void)handle, (void)flags;
    serve(at, count);
    for (uint32_t done = 0; done < count;) {
        ssize_t written = pwrite(image, (const char *)from + done, count - done, at + done);
        if (written <= 0) {
            nbdkit_error("pwrite: %s", strerror(errno));
            return -1;
        }
        done += written;
    }
    return 0;
}

/* What was acknowledged has been written: there is no cache to flush. */
static int seeking_flush(void *handle, uint32_t flags) {
    (void)handle, (void)flags;
    return 0;
}

static struct nbdkit_plugin plugin = {
    .name = "seeking",
    .config = seeking_config,
    .get_ready = seeking_get_ready,
    .open = seeking_open,
    .get_size = seeking_get_size,
    .pread = seeking_pread,
    .pwrite = seeking_pwrite,
    .flush = seeking_flush,
};

NBDKIT_REGISTER_PLUGIN(plugin)
