/* Allocates and frees small blocks, so that the C library later merges a block of memory with the
   remainders that it cut off. `native_aligned_memory.py` explains the reason. */
#include "native.h"

struct job {
    /* These functions are called by address, because LLVM may remove direct calls of `malloc`. */
    void *(*malloc)(uint64_t bytes);
    void (*free)(void *block);
    uint64_t start; /* of the memory */
    uint64_t end;
};

void give_back(struct job *job, void *arena) {
    volatile uint64_t blocks[BLOCKS];
    uint64_t before = job->start - FARTHEST;
    uint64_t span = job->end - before + FARTHEST;
    for (uint64_t bytes = SMALLEST; bytes <= LARGEST; bytes += STEP) {
        for (int n = 0; n < BLOCKS; n++)
            blocks[n] = (uint64_t)job->malloc(bytes);
        /* First free the blocks that are elsewhere, which fills the thread's cache. Then free the
           remainders beside the memory. Because the cache is full, they can be merged with it. */
        for (int beside = 0; beside < 2; beside++)
            for (int n = 0; n < BLOCKS; n++)
                if ((blocks[n] - before < span) == beside)
                    job->free((void *)blocks[n]);
    }
}
