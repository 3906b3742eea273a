/* Determines the memory range of the logged accesses of each site, and tests whether the accesses
   are disjoint. `native_tiles.py` describes the tables. */
#include "native.h"

/* The runs of adjacent bytes of a record. */
struct shape {
    int64_t runs;
    int64_t step; /* bytes from the start of a run to the start of the next */
    int64_t run;  /* bytes of a run */
};

INLINE struct shape shape_of(const struct record *record) {
    int64_t runs = record->site & REPEATED ? (int64_t)(record->sequence & COUNT_MASK) : 1;
    int64_t step = record->sequence >> REPEAT_STRIDE_SHIFT;
    int64_t span = record->end - record->start;
    return (struct shape){runs, step, span - (runs - 1) * step};
}

INLINE int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }

enum { NO_STEP = -1, SEVERAL_STEPS = -2 };

/* The records of a site. */
struct spread {
    int64_t low;     /* the lowest start */
    int64_t high;    /* the highest start */
    int64_t end;     /* the highest end */
    int64_t longest; /* bytes of the longest run */
    int64_t most;    /* the largest number of runs of a record */
    int64_t step;    /* the step of all records with several runs, or one of the above */
};
SIZE(struct spread, ROW_BYTES);

struct survey_job {
    const struct record *log;
    uint64_t count;
    struct spread *sites;
    int64_t synchronises; /* set if any record synchronises, which ends the survey */
};

void survey(struct survey_job *job, void *arena) {
    const struct record *log = job->log;
    struct spread *sites = job->sites;
    uint64_t count = job->count;
    for (uint64_t n = 0; n < count; n++) {
        int32_t which = log[n].site;
        if (which < 0) {
            job->synchronises = 1;
            return;
        }
        struct shape shape = shape_of(&log[n]);
        struct spread *site = &sites[which & ~REPEATED];
        int64_t start = log[n].start, end = log[n].end;
        site->low = site->low < start ? site->low : start;
        site->high = greatest(site->high, start);
        site->end = greatest(site->end, end);
        site->longest = greatest(site->longest, shape.run);
        site->most = greatest(site->most, shape.runs);
        if (which & REPEATED)
            site->step =
                site->step == NO_STEP || site->step == shape.step ? shape.step : SEVERAL_STEPS;
    }
}

/* The division of the memory of a site into bands, and of these into columns. */
struct bands {
    uint64_t low;     /* address of the first band */
    uint64_t band;    /* bytes of a band; 0: the site is left out */
    uint64_t step;    /* bytes of a row of a band, which the first run of a record must not leave */
    uint64_t column;  /* bytes of a column */
    uint64_t columns; /* number of columns in a band */
    uint64_t first;   /* index of the first column */
};
SIZE(struct bands, ROW_BYTES);

struct arrange_job {
    const struct record *log;
    uint64_t count;
    const struct bands *sites;
    uint8_t *taken; /* a byte for each column */
    int64_t apart;  /* set if each record is in a column of its own */
};

void arrange(struct arrange_job *job, void *arena) {
    const struct record *log = job->log;
    const struct bands *sites = job->sites;
    uint8_t *columns = job->taken;
    uint64_t count = job->count;
    for (uint64_t n = 0; n < count; n++) {
        const struct record *record = &log[n];
        const struct bands *site = &sites[(uint32_t)record->site & ~REPEATED];
        if (!site->band)
            continue;
        uint64_t offset = record->start - site->low;
        uint64_t band = offset / site->band;
        uint64_t inside = offset - band * site->band;
        uint64_t column = inside / site->column;
        uint64_t run = shape_of(record).run;
        if (column * site->column != inside || inside + run > site->step)
            return;
        uint8_t *taken = &columns[site->first + band * site->columns + column];
        if (*taken)
            return;
        *taken = 1;
    }
    job->apart = 1;
}
