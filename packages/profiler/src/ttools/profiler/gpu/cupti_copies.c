/* A `libcupti.so` that records copies and fills of memory, because Proton records kernels only.
 *
 * CUPTI has one subscriber and one pair of buffer callbacks per process, so the contents of
 * Proton's buffers can only be read before Proton receives them. This library depends on the real
 * one: `dlsym` on its handle finds the functions below in this library, and all others in the real
 * one. REAL_CUPTI is the path of the real library.
 *
 * The structures are the beginnings of CUPTI's records, which are equal in CUPTI 12 and 13. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { COPY = 1, FILL = 2, KERNEL = 3, CONCURRENT_KERNEL = 10, PEER_COPY = 22 };
enum { SUCCESS = 0, ERROR_UNKNOWN = 999 };

struct copy {
    uint32_t kind;
    uint8_t direction, source, target, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
};

struct fill {
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
};

struct kernel {
    uint32_t kind, settings, cache_requested, cache_executed;
    uint64_t start, end;
};

/* As Python reads it, see `copies.py`. */
struct record {
    uint32_t kind, direction;
    uint64_t bytes, start, end;
    uint32_t device, stream;
};

typedef void (*request_function)(uint8_t **, size_t *, size_t *);
typedef void (*complete_function)(void *, uint32_t, uint8_t *, size_t, size_t);

static const uint32_t recorded_kinds[] = {COPY, FILL, PEER_COPY};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static complete_function forward;
static int is_registered, is_recording;
static struct record *records;
static size_t count, room;
static uint64_t first_kernel = UINT64_MAX, dropped;

static void *real(const char *name) {
    void *library = dlopen(REAL_CUPTI, RTLD_LAZY | RTLD_NOLOAD);
    return library ? dlsym(library, name) : NULL;
}

static void set_kinds(const char *function) {
    int (*set)(uint32_t) = (int (*)(uint32_t))real(function);
    for (size_t n = 0; set && n < sizeof recorded_kinds / sizeof *recorded_kinds; n++)
        set(recorded_kinds[n]);
}

static void add(struct record one) {
    if (count == room) {
        size_t larger = room ? 2 * room : 1024;
        struct record *moved = realloc(records, larger * sizeof *moved);
        if (!moved) {
            dropped++;
            return;
        }
        records = moved;
        room = larger;
    }
    records[count++] = one;
}

static void read_record(const void *at) {
    uint32_t kind = *(const uint32_t *)at;
    if (kind == COPY || kind == PEER_COPY) {
        const struct copy *c = at;
        add((struct record){kind, c->direction, c->bytes, c->start, c->end, c->device, c->stream});
    } else if (kind == FILL) {
        const struct fill *f = at;
        add((struct record){kind, 0, f->bytes, f->start, f->end, f->device, f->stream});
    } else if (kind == KERNEL || kind == CONCURRENT_KERNEL) {
        const struct kernel *k = at;
        if (k->start < k->end && k->start < first_kernel)
            first_kernel = k->start;
    }
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    static int (*next)(uint8_t *, size_t, void **);
    pthread_mutex_lock(&lock);
    if (!next)
        next = (int (*)(uint8_t *, size_t, void **))real("cuptiActivityGetNextRecord");
    void *at = NULL;
    while (is_recording && next && valid && next(buffer, valid, &at) == SUCCESS && at)
        read_record(at);
    complete_function to = forward;
    pthread_mutex_unlock(&lock);
    if (to)
        to(context, stream, buffer, size, valid);
}

int cuptiActivityRegisterCallbacks(request_function request, complete_function complete) {
    int (*original)(request_function, complete_function) =
        (int (*)(request_function, complete_function))real("cuptiActivityRegisterCallbacks");
    if (!original)
        return ERROR_UNKNOWN;
    pthread_mutex_lock(&lock);
    forward = complete;
    pthread_mutex_unlock(&lock);
    int status = original(request, complete ? completed : complete);
    if (status == SUCCESS) {
        is_registered = complete != NULL;
        if (is_registered && is_recording)
            set_kinds("cuptiActivityEnable");
    }
    return status;
}

int cuptiFinalize(void) {
    int (*original)(void) = (int (*)(void))real("cuptiFinalize");
    is_registered = 0;
    return original ? original() : ERROR_UNKNOWN;
}

/* Begins or ends recording; earlier records are discarded at the beginning. */
void ttools_record_copies(int on) {
    pthread_mutex_lock(&lock);
    if (on) {
        count = 0;
        dropped = 0;
        first_kernel = UINT64_MAX;
    }
    is_recording = on;
    int registered = is_registered;
    pthread_mutex_unlock(&lock);
    if (registered)
        set_kinds(on ? "cuptiActivityEnable" : "cuptiActivityDisable");
}

/* Returns 1 if Proton gets its buffers from this library. */
int ttools_is_registered(void) { return is_registered; }

/* Copies up to `most` records and returns how many there are. */
size_t ttools_recorded(struct record *into, size_t most) {
    pthread_mutex_lock(&lock);
    for (size_t n = 0; n < count && n < most; n++)
        into[n] = records[n];
    size_t all = count;
    pthread_mutex_unlock(&lock);
    return all;
}

/* Returns the earliest start of a kernel; UINT64_MAX if there was no kernel. */
uint64_t ttools_first_kernel(void) { return first_kernel; }

/* Returns the number of records for which there was no memory. */
uint64_t ttools_dropped(void) { return dropped; }
