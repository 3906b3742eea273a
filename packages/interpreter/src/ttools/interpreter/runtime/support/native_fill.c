/* Fills memory with a word. */
#include "native.h"

typedef uint64_t row __attribute__((vector_size(64), aligned(8)));

struct job {
    uint64_t next; /* the next block to fill; threads take one at a time */
    uint64_t blocks;
    uint64_t words;
    uint64_t *memory;
    uint64_t word;
};

void fill(struct job *job, void *arena) {
    uint64_t words = job->words, word = job->word, blocks = job->blocks;
    uint64_t *memory = job->memory;
    row full = {word, word, word, word, word, word, word, word};
    for (;;) {
        uint64_t block = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
        if (block >= blocks)
            return;
        uint64_t n = block * BLOCK_WORDS;
        uint64_t end = least(n + BLOCK_WORDS, words);
        uint64_t rows_end = n + ((end - n) & -8);
        for (; n < rows_end; n += 8)
            *(row *)&memory[n] = full;
        for (; n < end; n++)
            *(volatile uint64_t *)&memory[n] = word;
    }
}
