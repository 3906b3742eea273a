/* Searches memory for halves of a word, as fast as it can be read. */
#include "native.h"

typedef uint32_t row __attribute__((vector_size(64)));
typedef row unaligned_row __attribute__((aligned(1)));
typedef uint32_t unaligned_half __attribute__((aligned(1)));

struct job {
    uint64_t next; /* the next block to search; threads take one at a time */
    uint64_t blocks;
    uint64_t halves;
    const unaligned_half *memory;
    uint64_t word;
    uint64_t found;
};

/* Returns 1 if any of `count` halves is equal to the half of `word` at the matching position:
   halves with an even index are compared with the low half, those with an odd index with the high
   half. */
static int holds(const unaligned_half *memory, uint64_t count, uint64_t word) {
    uint32_t low = word, high = word >> 32;
    row wanted = {low, high, low, high, low, high, low, high,
                  low, high, low, high, low, high, low, high};
    uint64_t n = 0, whole = count & -ROUND_WORDS;
    while (n < whole) {
        /* A half that is equal becomes 0 by the exclusive or, and then the minimum is 0, too. */
        row one = ~(row){0}, other = ~(row){0};
        for (uint64_t end = n + ROUND_WORDS; n < end; n += 32) {
            one = __builtin_elementwise_min(one, *(const unaligned_row *)&memory[n] ^ wanted);
            other =
                __builtin_elementwise_min(other, *(const unaligned_row *)&memory[n + 16] ^ wanted);
        }
        if (!__builtin_reduce_min(__builtin_elementwise_min(one, other)))
            return 1;
    }
    for (; n < count; n++)
        if (memory[n] == (n & 1 ? high : low))
            return 1;
    return 0;
}

void search(struct job *job, void *arena) {
    uint64_t blocks = job->blocks;
    for (;;) {
        uint64_t block = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
        if (block >= blocks)
            return;
        uint64_t first = block * BLOCK_WORDS;
        uint64_t end = least(first + BLOCK_WORDS, job->halves);
        if (holds(job->memory + first, end - first, job->word)) {
            __atomic_store_n(&job->found, 1, __ATOMIC_RELAXED);
            __atomic_store_n(&job->next, blocks, __ATOMIC_RELAXED); /* stops the other threads */
            return;
        }
    }
}
