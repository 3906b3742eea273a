/* The handler of a sampling timer's signal: notes where the thread that it interrupted was. */
#include "native.h"

/* Depends on the machine: where the program counter lies in the context of an interrupted thread.
   */
extern const int64_t PROGRAM_COUNTER;

static struct taken {
    uint64_t count;
    uint64_t room; /* how many addresses there is room for */
    uint64_t *places;
} taken;

void *taken_at(void) { return &taken; }

void take(int32_t number, void *information, const char *context) {
    uint64_t place = __atomic_fetch_add(&taken.count, 1, __ATOMIC_RELAXED);
    if (place < taken.room)
        taken.places[place] = *(const uint64_t *)(context + PROGRAM_COUNTER);
}
