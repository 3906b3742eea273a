/* Allocates small blocks and frees them, so that the C library merges a block of memory with the
   remainders that it cut off. `native_aligned_memory.py` explains the reason. */
#include "native.h"

struct job {
    /* Called by address: LLVM takes calls of `malloc` that it knows for ones it may leave out. */
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
        /* First those from elsewhere, which fill the thread's cache, then those that lie beside the
           memory: as the cache is full, these are joined to it. */
        for (int beside = 0; beside < 2; beside++)
            for (int n = 0; n < BLOCKS; n++)
                if ((blocks[n] - before < span) == beside)
                    job->free((void *)blocks[n]);
    }
}
