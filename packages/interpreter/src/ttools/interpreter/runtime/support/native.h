/* Structures that the C files of this directory share with Python and with emitted code.

   Python declares the layouts (`abi/launch_layout.py`, `abi/probe_layout.py`).
   `tools/native_code.py` passes offsets and sizes as macros, in capitals, and the assertions below
   fail if a structure differs from them. */
#ifndef TTOOLS_NATIVE_H
#define TTOOLS_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
#define AT(type, field, offset) \
    _Static_assert(offsetof(type, field) == (offset), #type "." #field)
#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "size of " #type)

typedef int32_t callback_function(void *launch, uint64_t program, int32_t kind, int32_t site,
                                  void *payload);
typedef void run_function(void *launch, void *arena);

/* The part of a launch that kernels use. */
struct launch_head {
    int64_t next;         /* position of the next program to start */
    int64_t count;        /* number of programs */
    const int64_t *order; /* ids of the programs by position; null: ids equal positions */
    int32_t grid[3];
    int32_t abort;        /* if not 0, no more programs start */
    void *parameters;
    callback_function *callback;
    int64_t batch;        /* number of programs that a thread takes at a time */
    void *note_stop;
    int64_t stopped;      /* 1 if any program has left a loop because of `abort` */
    int64_t stopped_program;
    int64_t stopped_site;
    int64_t reserved[4];
};
SIZE(struct launch_head, KERNEL_BYTES);
AT(struct launch_head, next, 0);
AT(struct launch_head, count, LAUNCH_COUNT);
AT(struct launch_head, order, LAUNCH_ORDER);
AT(struct launch_head, abort, LAUNCH_ABORT);
AT(struct launch_head, callback, LAUNCH_CALLBACK);
AT(struct launch_head, batch, LAUNCH_BATCH);
AT(struct launch_head, stopped, LAUNCH_STOPPED);
AT(struct launch_head, stopped_program, LAUNCH_STOPPED_PROGRAM);
AT(struct launch_head, stopped_site, LAUNCH_STOPPED_SITE);

/* An entry of the log of accesses, which describes a run of adjacent bytes. Several runs at equal
   distances are one entry: REPEATED is set in `site`, and `sequence` contains the number of runs
   and the distance between them, in lanes and in bytes. */
struct record {
    uint64_t start; /* address of the first byte */
    uint64_t end;   /* address after the last byte */
    uint64_t program;
    uint64_t sequence; /* number of synchronising accesses that the launch had made before */
    int32_t site;
    uint32_t lane;  /* the first lane of the access */
    uint64_t clock; /* epoch and barrier of the program, 32 bits each */
};
SIZE(struct record, RECORD_BYTES);

/* An entry for an access that synchronises. Its site is negative, because all bits are inverted. */
struct synchronisation {
    uint64_t start;
    uint64_t end;
    uint64_t program;
    uint64_t sequence;
    int32_t site;
    uint32_t epoch;
    uint32_t barrier;
    uint32_t flags;
};
SIZE(struct synchronisation, RECORD_BYTES);

INLINE uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

#endif
