/* The handler of a sampling timer's signal, which records the address of the interrupted code. */
#include "native.h"

/* The offset of the program counter in the context of an interrupted thread, which depends on the
   machine. */
extern const int64_t PROGRAM_COUNTER;

static struct taken {
    uint64_t count;
    uint64_t room; /* number of addresses for which there is space */
    uint64_t *places;
} taken;

void *taken_at(void) { return &taken; }

void take(int32_t number, void *information, const char *context) {
    uint64_t place = __atomic_fetch_add(&taken.count, 1, __ATOMIC_RELAXED);
    if (place < taken.room)
        taken.places[place] = *(const uint64_t *)(context + PROGRAM_COUNTER);
}
