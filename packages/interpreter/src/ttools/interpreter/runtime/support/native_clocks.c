/* Replays accesses that acquire and release, and answers questions about the programs' clocks.
   `native_clocks.py` describes steps, clocks and questions. */
#include "native.h"

/* A clock: WIDTH numbers that are not negative. */
typedef int32_t clock __attribute__((vector_size(4 * WIDTH), aligned(4)));

/* One access. Clocks are identified by their index; -1 means no clock. */
struct step {
    int32_t program; /* the clock of its program */
    int32_t reads;   /* the clock that it acquires */
    int32_t writes;  /* the clock to which it releases */
    int32_t key;     /* the index of a number of that clock that it sets; -1: none */
    int32_t value;   /* the value of that number */
    int32_t keeps;   /* 1 if that clock keeps its numbers where they are greater */
    int32_t takes;   /* 1 if the clock of the program then becomes equal to that clock */
    int32_t copies;  /* the clock to which that clock is then copied */
};
SIZE(struct step, STEP_BYTES);

/* A question about the clock of a step's program after the step: one of its numbers, or whether all
   numbers are large enough. */
struct question {
    int32_t step;
    int32_t key;  /* index of the number; with `needs`, of a number that is ignored, -1: none */
    int32_t needs; /* index of the row of the job's needs; -1: none */
};

/* All clocks that the steps use must be zero before, and are zero again afterwards. */
struct job {
    const struct step *steps;
    uint64_t step_count;
    clock *clocks;
    const struct question *questions; /* in the order of their steps */
    uint64_t question_count;
    int32_t *answers;
    const clock *needs;
};

INLINE void clear(clock *clocks, int32_t which) {
    if (which >= 0)
        clocks[which] = (clock){0};
}

INLINE int32_t has_all(const clock *known, const clock *needs, int32_t but) {
    clock lacks = *known < *needs;
    if (but >= 0)
        ((int32_t *)&lacks)[but] = 0;
    return !__builtin_reduce_or(lacks);
}

void replay(struct job *job, void *arena) {
    clock *clocks = job->clocks;
    const struct step *steps = job->steps;
    const struct question *questions = job->questions;
    uint64_t step_count = job->step_count, question_count = job->question_count, asked = 0;
    int32_t *answers = job->answers;
    for (uint64_t n = 0; n < step_count; n++) {
        const struct step *step = &steps[n];
        clock *own = &clocks[step->program];
        clock known = *own;
        if (step->reads >= 0) {
            known = __builtin_elementwise_max(known, clocks[step->reads]);
            *own = known;
        }
        if (step->writes >= 0) {
            clock *target = &clocks[step->writes];
            *target = step->keeps ? __builtin_elementwise_max(known, *target) : known;
            if (step->key >= 0)
                ((int32_t *)target)[step->key] = step->value;
            if (step->takes)
                *own = *target;
            if (step->copies >= 0)
                clocks[step->copies] = *target;
        }
        for (; asked < question_count && questions[asked].step == (int64_t)n; asked++) {
            const struct question *question = &questions[asked];
            answers[asked] = question->needs < 0
                                 ? ((int32_t *)own)[question->key]
                                 : has_all(own, &job->needs[question->needs], question->key);
        }
    }
    for (uint64_t n = 0; n < step_count; n++) {
        clear(clocks, steps[n].program);
        clear(clocks, steps[n].writes);
        clear(clocks, steps[n].copies);
    }
}
