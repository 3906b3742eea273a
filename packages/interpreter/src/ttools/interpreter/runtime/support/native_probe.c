/* The functions that instrumented code calls on its cold paths. They check lanes, count, log and
   call Python. `native_probe.py` binds them, and `abi/probe_layout.py` declares the layouts. */
#include "native.h"

int32_t sched_yield(void);

#define CLASSES 4

/* An access in the kernel, or a part of one with at most 64 lanes. */
struct site {
    uint32_t size;             /* bytes of an element */
    uint32_t lanes;
    int32_t region;            /* index of the region it may access; negative: any allocation */
    int32_t leader;            /* the site whose counters all parts of the access share */
    const uint32_t *positions; /* position of each lane in walk order */
    uint64_t period;           /* number of bytes of the tile minus 1 */
    uint64_t stores;           /* 1 if the access stores, else 0 */
};
SIZE(struct site, SITE_BYTES);

/* The elements of a view with gaps. If `count` is negative, `bitmap` has a byte for each element of
   the span. Otherwise `rows` has `count` dimensions, the one with the largest stride first. */
struct dimensions {
    int64_t count;
    uint64_t item; /* bytes of an element */
    union {
        const uint8_t *bitmap;
        struct {
            uint64_t stride; /* bytes */
            uint64_t last;   /* the greatest index */
        } rows[1];
    };
};

/* The memory that may be accessed through an argument. */
struct region {
    uint64_t begin, end;            /* of the storage */
    uint64_t fast_base, fast_bytes; /* for the fast test in emitted code */
    uint64_t view_begin, view_end;
    const struct dimensions *dimensions; /* null: the view has no gaps */
    uint64_t view_matters;
};
SIZE(struct region, REGION_BYTES);
AT(struct region, fast_base, FAST_BASE);
AT(struct region, fast_bytes, FAST_BYTES);

struct allocation {
    uint64_t begin, end;
};

/* The number of failures of one class at a site. */
struct counter {
    uint64_t lanes;
    uint64_t lowest_program;
    uint64_t programs;
};
SIZE(struct counter[CLASSES], COUNTER_BYTES);

/* The data that the threads of a launch share. */
struct monitor {
    void *functions[FUNCTION_COUNT];
    const struct site *sites;
    uint64_t site_count;
    const struct region *regions;
    uint64_t allocation_count;
    const struct allocation *allocations;
    struct counter (*counters)[CLASSES];
    int32_t mutex; /* held during a synchronising access */
    uint64_t sequence;
    int32_t log_mutex;
    uint64_t log_used;
    struct record *log;
    uint8_t *watched;
    uint64_t rereads; /* if not 0, Python chooses the values that synchronising accesses return */
    uint64_t finds;   /* if not 0, Python is called to find memory outside of all allocations */
};
SIZE(struct monitor, MONITOR_BYTES);
AT(struct monitor, sites, MONITOR_SITES);
AT(struct monitor, site_count, MONITOR_SITE_COUNT);
AT(struct monitor, regions, MONITOR_REGIONS);
AT(struct monitor, allocation_count, MONITOR_ALLOCATION_COUNT);
AT(struct monitor, allocations, MONITOR_ALLOCATIONS);
AT(struct monitor, counters, MONITOR_COUNTERS);
AT(struct monitor, mutex, MONITOR_MUTEX);
AT(struct monitor, sequence, MONITOR_SEQUENCE);
AT(struct monitor, log_mutex, MONITOR_LOG_MUTEX);
AT(struct monitor, log_used, MONITOR_LOG_USED);
AT(struct monitor, log, MONITOR_LOG);
AT(struct monitor, watched, MONITOR_WATCHED);
AT(struct monitor, rereads, MONITOR_REREADS);
AT(struct monitor, finds, MONITOR_FINDS);

/* The state of a site in a thread: the record that may still be extended, the memory that was
   accessed last, and pending runs, which will be logged as one record. */
struct open_record {
    struct record record;         /* `end` is 0 if there is none */
    uint64_t cache_base;          /* bounds for the fast test in emitted code */
    uint64_t cache_bytes;
    uint64_t last_marks[CLASSES]; /* 1 + the last program that failed, by class */
    uint64_t origin;              /* `start` minus the bytes before `lane`, modulo the tile */
    struct record first;          /* the first pending run */
    uint64_t count;               /* number of pending runs */
    uint64_t stride;              /* distance of successive pending runs in bytes */
    uint64_t lanes;               /* distance of successive pending runs in lanes */
};
SIZE(struct open_record, OPEN_BYTES);
AT(struct open_record, cache_base, CACHE_BASE);
AT(struct open_record, cache_bytes, CACHE_BYTES);
AT(struct open_record, origin, OPEN_ORIGIN);
AT(struct open_record, first, OPEN_FIRST);
AT(struct open_record, count, OPEN_COUNT);
AT(struct open_record, stride, OPEN_STRIDE);
AT(struct open_record, lanes, OPEN_LANES);

/* A thread's probe. */
struct probe {
    struct monitor *monitor;
    uint64_t logged; /* number of records in `log` */
    union {
        struct {
            uint32_t epoch;
            uint32_t barrier;
        };
        uint64_t clock; /* both */
    };
    uint64_t program;
    struct launch_head *launch;
    uint64_t unused[3];
    struct record log[LOG_RECORDS];
    struct open_record open[1]; /* one for each site */
};
AT(struct probe, logged, PROBE_LOGGED);
AT(struct probe, epoch, PROBE_EPOCH);
AT(struct probe, barrier, PROBE_BARRIER);
AT(struct probe, program, PROBE_PROGRAM);
AT(struct probe, launch, PROBE_LAUNCH);
AT(struct probe, log, PROBE_LOG);
AT(struct probe, open, PROBE_OPEN);

/* The payload of an event: a mask of lanes for each class of failure, the mask of all active lanes,
   and the address of each lane. */
struct payload {
    uint64_t failed[CLASSES];
    uint64_t active;
    uint64_t addresses[1];
};
AT(struct payload, addresses, PAYLOAD_ADDRESSES);

void finish(struct probe *probe);

/* Returns 1 if an element of `size` bytes at `address` is inside `span` bytes from `begin`. The sum
   `address + size` is not computed, because it may wrap around. */
INLINE int lies_in(uint64_t address, uint64_t size, uint64_t begin, uint64_t span) {
    uint64_t room = span > size - 1 ? span - (size - 1) : 0;
    return address - begin < room;
}

/* Returns 1 if the element at an offset from the first byte of a view belongs to the view. */
static int is_member(const struct dimensions *dimensions, uint64_t offset) {
    if (dimensions->count < 0)
        return dimensions->bitmap[offset / dimensions->item] != 0;
    for (int64_t n = 0; n < dimensions->count; n++) {
        uint64_t stride = dimensions->rows[n].stride;
        offset -= least(offset / stride, dimensions->rows[n].last) * stride;
    }
    return offset < dimensions->item;
}

static __attribute__((noinline)) int32_t call_back(struct probe *probe, int32_t kind, int32_t site,
                                                   void *payload) {
    return probe->launch->callback(probe->launch, probe->program, kind, site, payload);
}

/* Checks the active lanes of an access, and writes those that failed to the payload. Returns the
   lanes that may access memory. */
uint64_t check_lanes(struct probe *probe, int32_t site, struct payload *payload, uint64_t active) {
    const struct monitor *monitor = probe->monitor;
    const struct site *own = &monitor->sites[site];
    const struct region *region = &monitor->regions[own->region];
    struct open_record *open = &probe->open[site];
    uint64_t size = own->size;
    uint64_t outside = 0, beside = 0, misaligned = 0, allowed = 0;
    for (uint32_t lane = 0; lane < own->lanes; lane++) {
        uint64_t bit = (uint64_t)1 << lane;
        if (!(active & bit))
            continue;
        uint64_t address = payload->addresses[lane];
        if (address & (size - 1)) {
            misaligned |= bit;
            continue;
        }
        if (own->region >= 0) {
            if (!lies_in(address, size, region->begin, region->end - region->begin)) {
                outside |= bit;
                continue;
            }
            allowed |= bit;
            if (!region->view_matters)
                continue;
            uint64_t span = region->view_end - region->view_begin;
            if (!lies_in(address, size, region->view_begin, span)
                || (region->dimensions
                    && !is_member(region->dimensions, address - region->view_begin)))
                beside |= bit;
            continue;
        }
        /* The origin of the address is unknown, so it may be in any allocation. */
        uint64_t begin = 0, span = 0, k = 0;
        for (; k < monitor->allocation_count; k++) {
            begin = monitor->allocations[k].begin;
            span = monitor->allocations[k].end - begin;
            if (lies_in(address, size, begin, span))
                break;
        }
        if (k == monitor->allocation_count) {
            uint64_t question[4] = {address, size, 0, 0};
            if (!monitor->finds || call_back(probe, KIND_FIND, site, question)) {
                outside |= bit;
                continue;
            }
            begin = question[2];
            span = question[3] - begin;
        }
        /* The fast test in emitted code tests the alignment by the distance from the base, so the
           base must be a multiple of the size of the largest element. */
        uint64_t skip = -begin % LARGEST_ELEMENT;
        open->cache_base = begin + skip;
        open->cache_bytes = span > skip ? span - skip : 0;
        allowed |= bit;
    }
    payload->failed[0] = outside;
    payload->failed[1] = beside;
    payload->failed[2] = misaligned;
    payload->failed[3] = 0;
    payload->active = active;
    return allowed;
}

/* Counts failed lanes, and calls Python with the payload if no program with a lower id has failed
   at this site. */
void report(struct probe *probe, int32_t site, struct payload *payload) {
    const struct monitor *monitor = probe->monitor;
    int32_t leader = monitor->sites[site].leader; /* the parts of one access count together */
    struct open_record *open = &probe->open[leader];
    int news = 0;
    for (int class = 0; class < CLASSES; class++) {
        uint64_t failed = payload->failed[class];
        if (!failed)
            continue;
        struct counter *counter = &monitor->counters[leader][class];
        __atomic_fetch_add(&counter->lanes, __builtin_popcountll(failed), __ATOMIC_RELAXED);
        uint64_t lowest =
            __atomic_fetch_min(&counter->lowest_program, probe->program, __ATOMIC_RELAXED);
        if (open->last_marks[class] != probe->program + 1) {
            open->last_marks[class] = probe->program + 1;
            __atomic_fetch_add(&counter->programs, 1, __ATOMIC_RELAXED);
        }
        news |= probe->program < lowest;
    }
    if (news)
        call_back(probe, KIND_EVENT, site, payload);
}

static void acquire(int32_t *mutex) {
    int32_t expected = 0;
    while (!__atomic_compare_exchange_n(mutex, &expected, 1, 0, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
        sched_yield();
        expected = 0;
    }
}

static void release(int32_t *mutex) { __atomic_store_n(mutex, 0, __ATOMIC_RELEASE); }

/* Appends a record to the thread's log, and moves the log to that of the launch if it is full. */
static __attribute__((noinline)) void log_record(struct probe *probe, const void *record) {
    __builtin_memcpy(&probe->log[probe->logged], record, sizeof(struct record));
    probe->logged++;
    if (probe->logged >= LOG_RECORDS)
        finish(probe);
}

/* Moves the thread's log to that of the launch, because it is full or the thread ends. */
void finish(struct probe *probe) {
    struct monitor *monitor = probe->monitor;
    uint64_t count = probe->logged;
    if (!count)
        return;
    acquire(&monitor->log_mutex);
    uint64_t used = monitor->log_used;
    if (used + count > SHARED_LOG_RECORDS) {
        call_back(probe, KIND_DRAIN, 0, monitor);
        used = 0;
    }
    monitor->log_used = used + count;
    __builtin_memcpy(&monitor->log[used], probe->log, count * sizeof(struct record));
    release(&monitor->log_mutex);
    probe->logged = 0;
}

/* Logs the pending runs, as one record if there are at least three. Two runs are logged separately,
   because any two runs have some distance, so it means nothing. */
static __attribute__((noinline)) void log_repeated(struct probe *probe, struct open_record *open) {
    struct record *first = &open->first;
    uint64_t count = open->count;
    open->count = 0;
    if (count > 2) {
        first->end += (count - 1) * open->stride;
        first->sequence =
            count | open->lanes << REPEAT_LANE_SHIFT | open->stride << REPEAT_STRIDE_SHIFT;
        first->site |= REPEATED;
        log_record(probe, first);
        return;
    }
    log_record(probe, first);
    if (count == 2) {
        first->start += open->stride;
        first->end += open->stride;
        first->lane += (uint32_t)open->lanes;
        log_record(probe, first);
    }
}

/* Returns 1 if the open record has the same distance from the last pending run as these have from
   each other. A record of several runs has no space for the number of synchronising accesses, so
   this must be 0. */
static int continues(const struct open_record *open) {
    const struct record *record = &open->record, *first = &open->first;
    uint64_t bytes = record->end - record->start;
    uint64_t apart = record->start - first->start;
    uint64_t lanes = (uint64_t)record->lane - first->lane;
    if (bytes != first->end - first->start || record->sequence | first->sequence)
        return 0;
    if (open->count == 1)
        return apart >= bytes && apart < REPEAT_STRIDE_LIMIT && lanes < REPEAT_LANE_LIMIT;
    return apart == open->count * open->stride && lanes == open->count * open->lanes
           && open->count < REPEAT_COUNT_LIMIT;
}

/* Ends the open record. If it continues the pending runs, it becomes one of them. Otherwise these
   are logged, and it becomes the first pending run. */
static __attribute__((noinline)) void settle(struct probe *probe, struct open_record *open) {
    if (open->count) {
        if (continues(open)) {
            if (open->count == 1) {
                open->stride = open->record.start - open->first.start;
                open->lanes = (uint64_t)open->record.lane - open->first.lane;
            }
            open->count++;
            return;
        }
        log_repeated(probe, open);
    }
    open->first = open->record;
    open->count = 1;
}

INLINE void begin_record(struct record *record, const struct probe *probe, uint64_t start,
                                uint64_t bytes, uint64_t sequence, int32_t site, uint32_t lane) {
    record->start = start;
    record->end = start + bytes;
    record->program = probe->program;
    record->sequence = sequence;
    record->site = site;
    record->lane = lane;
    record->clock = probe->clock;
}

/* Returns the address that lane 0 would have if `lane` is at `start`, modulo the size of the tile.
   It is equal for all chunks of a contiguous tile. */
INLINE uint64_t origin_of(const struct site *site, uint64_t start, uint32_t lane) {
    return (start - (uint64_t)lane * site->size) & site->period;
}

/* Records that consecutive lanes accessed a run of adjacent bytes. This extends the site's open
   record or begins another one. */
void footprint(struct probe *probe, int32_t site, uint64_t start, uint64_t bytes, uint32_t lane) {
    struct monitor *monitor = probe->monitor;
    uint64_t origin = origin_of(&monitor->sites[site], start, lane);
    struct open_record *open = &probe->open[site];
    if (open->record.end == start && open->origin == origin) {
        open->record.end = start + bytes;
        return;
    }
    if (open->record.end)
        settle(probe, open);
    open->origin = origin;
    uint64_t sequence = __atomic_load_n(&monitor->sequence, __ATOMIC_RELAXED);
    begin_record(&open->record, probe, start, bytes, sequence, site, lane);
}

/* Records the active lanes of an access at arbitrary addresses. If neighbouring lanes have the same
   address, the first is logged. If the access stores, a second one is logged, too, which shows that
   lanes share an element. The others are only counted in the record, which is then not extended any
   more. */
void footprint_lanes(struct probe *probe, int32_t site, const uint64_t *addresses, uint64_t active,
                     uint32_t first) {
    const struct site *own = &probe->monitor->sites[site];
    struct open_record *open = &probe->open[site];
    uint64_t seen = -1, spare = own->stores;
    for (uint32_t lane = 0; lane < own->lanes; lane++) {
        if (!(active & (uint64_t)1 << lane))
            continue;
        uint64_t address = addresses[lane];
        int counted = address == seen && !spare && open->record.start == address;
        spare = address == seen ? 0 : own->stores;
        seen = address;
        if (counted) {
            open->origin = -1;
            open->record.sequence += ONE_MORE_LANE;
        } else {
            footprint(probe, site, address, own->size, first + own->positions[lane]);
        }
    }
}

/* Records the rows of a tile, each of which is a run of adjacent bytes, with the same result as a
   call of `footprint` for each row. If the site has no open record and no pending runs, all rows
   but the last become pending runs at once, and the last one becomes the open record. */
void footprint_tile(struct probe *probe, int32_t site, uint64_t start, int64_t bytes, uint32_t lane,
                    int64_t count, uint64_t stride, uint32_t lanes) {
    struct monitor *monitor = probe->monitor;
    struct open_record *open = &probe->open[site];
    if (bytes <= 0)
        return;
    uint64_t sequence = __atomic_load_n(&monitor->sequence, __ATOMIC_RELAXED);
    int is_first = !(open->record.end | open->count | sequence);
    uint64_t others = count - 1;
    /* There must be at least three rows, and not more than a record can represent. */
    if (is_first && (uint64_t)count - 3 < REPEAT_COUNT_ROOM && stride > (uint64_t)bytes
        && stride < REPEAT_STRIDE_LIMIT && lanes < REPEAT_LANE_LIMIT) {
        uint64_t last = start + others * stride;
        uint32_t last_lane = lane + (uint32_t)others * lanes;
        open->origin = origin_of(&monitor->sites[site], last, last_lane);
        begin_record(&open->record, probe, last, bytes, 0, site, last_lane);
        begin_record(&open->first, probe, start, bytes, 0, site, lane);
        open->count = others;
        open->stride = stride;
        open->lanes = lanes;
        return;
    }
    for (int64_t row = 0; row < count; row++)
        footprint(probe, site, start + row * stride, bytes, lane + (uint32_t)row * lanes);
}

/* Logs all open records, because the program ends or because later accesses have another position
   in the order of synchronisation. */
void close(struct probe *probe) {
    int32_t count = probe->monitor->site_count;
    for (int32_t site = 0; site < count; site++) {
        struct open_record *open = &probe->open[site];
        if (!open->record.end)
            continue;
        settle(probe, open);
        open->record.end = 0;
        log_repeated(probe, open);
    }
}

/* Records a barrier of the program. */
void pass_barrier(struct probe *probe) {
    close(probe);
    probe->barrier++;
}

/* Records the end of an iteration of a loop, in a launch without synchronising accesses, in which
   the epoch counts iterations. An operation at which threads exchange values also calls this, with
   `fill` set, so that the lower bits of the epoch become 0. */
void pass_iteration(struct probe *probe, uint32_t fill) {
    close(probe);
    uint32_t filled = probe->epoch | fill;
    probe->epoch = filled == INT32_MAX ? filled : filled + 1;
}

/* Begins a synchronising access. Only one is executed at a time, so that the log has the order in
   which they take effect. */
void lock(struct probe *probe) {
    close(probe);
    acquire(&probe->monitor->mutex);
}

/* Returns the record that precedes the last of the first `end` records of the log by `back`. */
INLINE const struct synchronisation *logged(const struct probe *probe, uint64_t end,
                                                   uint64_t back) {
    return (const struct synchronisation *)&probe->log[end - 1 - back];
}

/* Returns 1 if the last `polls` polls among the first `end` records, each of which is followed by
   `others` records, are equal to `record` except for the barrier, which increases by `implied` from
   one poll to the next. */
INLINE int polls_alike(const struct probe *probe, const struct synchronisation *record,
                              int32_t site, uint64_t end, uint64_t polls, uint64_t others,
                              uint32_t implied) {
    uint64_t stride = others + 1;
    if (end <= (polls - 1) * stride)
        return 0;
    uint32_t barrier = record->barrier;
    for (uint64_t n = 0; n < polls; n++) {
        const struct synchronisation *poll = logged(probe, end, n * stride);
        const struct synchronisation *behind = poll + others;
        if (poll->start != record->start || poll->program != record->program
            || poll->site != record->site || poll->flags != record->flags
            || poll->barrier != barrier - implied || behind->start != record->start
            || behind->site != (others ? site : record->site))
            return 0;
        barrier = poll->barrier;
    }
    return 1;
}

/* Ends a synchronising access and logs it. Returns the value that the access returns. This is
   `value`, unless Python chooses another value in order to explore an earlier order. */
uint64_t synchronise(struct probe *probe, int32_t site, uint64_t address, uint32_t flags,
                     uint64_t value) {
    struct monitor *monitor = probe->monitor;
    uint64_t sequence = __atomic_fetch_add(&monitor->sequence, 1, __ATOMIC_RELAXED) + 1;
    uint64_t question[4] = {value, address, flags, sequence};
    if (monitor->rereads)
        call_back(probe, KIND_SYNCHRONISE, site, question);
    uint64_t seen = question[0];
    release(&monitor->mutex);
    uint32_t implied = flags & IMPLIES_BARRIER ? 1 : 0;
    struct synchronisation record = {
        .start = address,
        .end = address + monitor->sites[site].size,
        .program = probe->program,
        .sequence = sequence,
        .site = ~site,
        .epoch = probe->epoch,
        .barrier = probe->barrier,
        .flags = flags,
    };
    /* A loop that polls a word would fill the log, so equal polls are combined. A poll that only
       reads replaces an equal poll just before it. Polls that write are kept up to three: a further
       one publishes nothing that the second of them has not published, so only the position of the
       last one in the order is updated. */
    uint64_t kept = flags & WRITING ? 3 : 1;
    /* If a poll writes, the bytes that it accesses are logged, too, so each second record is one of
       this site. The record after the last poll is dropped with this poll. */
    uint64_t end = probe->logged, others = 0;
    if (end >= 2) {
        const struct synchronisation *touched = logged(probe, end, 0);
        others = touched->start == address && touched->program == probe->program
                 && touched->site == site;
        end -= others;
    }
    if (polls_alike(probe, &record, site, end, kept, others, implied)) {
        probe->logged = end;
        probe->log[end - 1].sequence = sequence;
        return seen;
    }
    log_record(probe, &record);
    probe->epoch = record.epoch + 1;
    probe->barrier = record.barrier + implied;
    return seen;
}
