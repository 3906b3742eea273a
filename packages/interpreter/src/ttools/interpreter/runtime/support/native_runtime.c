/* The functions of the runtime that run without Python's lock: the waiting loop of a worker,
   handing a launch to workers, the driver of kernels whose programs wait for each other, and
   handlers of signals. `native_runtime.py` binds them and declares the structures. */
#include "native.h"

int64_t syscall(int64_t number, ...);
int32_t sched_yield(void);
int32_t clock_gettime(int32_t clock, int64_t *time);
int32_t nanosleep(const int64_t *time, int64_t *rest);
int32_t sigaltstack(const void *stack, void *before);
uint64_t strlen(const char *text);
int64_t write(int32_t file, const void *bytes, uint64_t count);
int32_t sigaction(int32_t number, const void *action, void *before);
int32_t raise(int32_t number);
int32_t poll(void *files, uint64_t count, int32_t milliseconds);
int32_t getpid(void);
uint64_t pthread_self(void);
int32_t *__errno_location(void);

/* Depends on the machine: `native_runtime.py` fills in the number and the function. */
extern const int64_t SYS_FUTEX;
void pause_processor(void);

/* How a job reaches a worker. */
enum { IDLE = 0, HAS_JOB = 1, MUST_EXIT = 2, RUNS_JOB = 3 };
struct mailbox {
    int32_t state; /* a futex */
    int32_t sleeping;
    run_function *entry;
    void *launch;
    void *arena;
    int32_t *pending; /* jobs of the launch that are not done; a futex */
    int64_t pad[3];
};
SIZE(struct mailbox, BOX_BYTES);
AT(struct mailbox, sleeping, BOX_SLEEPING);
AT(struct mailbox, entry, BOX_ENTRY);
AT(struct mailbox, launch, BOX_LAUNCH);
AT(struct mailbox, arena, BOX_ARENA);
AT(struct mailbox, pending, BOX_PENDING);

/* One thread's part of a launch whose programs wait for each other. It begins with a launch of one
   program, which is what the kernel sees. */
struct runner {
    struct launch_head launch;
    struct launch *shared; /* the launch that programs are taken from */
    run_function *entry;
    int64_t program;    /* -1 between programs */
    int64_t position;   /* of the program in the order of starting */
    int64_t calls;      /* of the callback in the present wait; 0: not known to wait */
    int64_t instance;   /* waits begun so far, by all programs */
    int64_t finished;   /* programs */
    int64_t site;       /* the loop that waits */
    uint64_t iterations;
    callback_function *callback; /* for all but waits */
    int64_t cpu;        /* nanoseconds the thread had run when the last call returned */
    int64_t next, end;  /* positions that it took and has not started */
    int64_t returned_next, returned_end; /* positions that it gave back, for any thread to take */
    struct runner *returned_link;        /* the runner that gave back before */
};
SIZE(struct runner, RUN_BYTES);
AT(struct runner, shared, RUN_SHARED);
AT(struct runner, entry, RUN_ENTRY);
AT(struct runner, program, RUN_PROGRAM);
AT(struct runner, position, RUN_POSITION);
AT(struct runner, calls, RUN_CALLS);
AT(struct runner, instance, RUN_INSTANCE);
AT(struct runner, finished, RUN_FINISHED);
AT(struct runner, site, RUN_SITE);
AT(struct runner, iterations, RUN_ITERATIONS);
AT(struct runner, callback, RUN_CALLBACK);
AT(struct runner, cpu, RUN_CPU);
AT(struct runner, next, RUN_NEXT);
AT(struct runner, end, RUN_END);
AT(struct runner, returned_next, RUN_RETURNED_NEXT);
AT(struct runner, returned_end, RUN_RETURNED_END);
AT(struct runner, returned_link, RUN_RETURNED_LINK);

/* A launch as the runtime sees it. */
struct launch {
    struct launch_head head;
    int64_t pending;
    uint64_t longest_sleep;      /* nanoseconds that a wait may sleep */
    int64_t returned;            /* programs that were given back and not taken again */
    struct runner *first_return; /* the runner that gave back last */
    int64_t contended;           /* whether any program has waited */
};
AT(struct launch, longest_sleep, LAUNCH_LONGEST_SLEEP);
AT(struct launch, returned, LAUNCH_RETURNED);
AT(struct launch, first_return, LAUNCH_FIRST_RETURN);
AT(struct launch, contended, LAUNCH_CONTENDED);

#define READ(place) __atomic_load_n(&(place), __ATOMIC_SEQ_CST)
#define WRITE(place, value) __atomic_store_n(&(place), value, __ATOMIC_SEQ_CST)
#define ADD(place, value) __atomic_fetch_add(&(place), value, __ATOMIC_SEQ_CST)

/* Changes `*place` from `old` to `new`; false if it held something else. */
INLINE int replace(int32_t *place, int32_t old, int32_t new) {
    return __atomic_compare_exchange_n(place, &old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Nanoseconds of a clock: of the time, or of what this thread has had of the CPU. */
static int64_t nanoseconds(int32_t clock) {
    int64_t time[2];
    clock_gettime(clock, time);
    return time[0] * 1000000000 + time[1];
}

/* The thread routine of a worker: waits for a job, runs it, reports it; busy for a moment before it
   sleeps. */
void *worker(struct mailbox *box) {
    /* Handlers of signals run here once this thread's stack is full: at the far end of the stack,
       which nothing else uses. */
    char spare[ALTERNATE_STACK_BYTES] __attribute__((aligned(16)));
    struct {
        void *base;
        int64_t flags;
        uint64_t size;
    } stack = {spare, 0, ALTERNATE_STACK_BYTES};
    sigaltstack(&stack, 0);
    for (;;) {
        int64_t since = nanoseconds(CLOCK_MONOTONIC);
        int32_t state;
        while ((state = __atomic_load_n(&box->state, __ATOMIC_ACQUIRE)) == IDLE) {
            if ((uint64_t)(nanoseconds(CLOCK_MONOTONIC) - since) < BUSY_NANOSECONDS) {
                pause_processor();
                continue;
            }
            WRITE(box->sleeping, 1);
            syscall(SYS_FUTEX, box, (int64_t)FUTEX_WAIT, (int64_t)IDLE, (void *)0);
            WRITE(box->sleeping, 0);
            since = nanoseconds(CLOCK_MONOTONIC);
        }
        if (state == MUST_EXIT)
            return 0;
        /* The launcher may have taken the job back in the meantime. */
        if (!replace(&box->state, HAS_JOB, RUNS_JOB))
            continue;
        int32_t *pending = box->pending;
        box->entry(box->launch, box->arena);
        /* Idle before the count says so: the launcher may give this worker the next job at once. */
        WRITE(box->state, IDLE);
        if (__atomic_fetch_sub(pending, 1, __ATOMIC_SEQ_CST) == 1)
            syscall(SYS_FUTEX, pending, (int64_t)FUTEX_WAKE, (int64_t)1);
    }
}

/* Sets the state of workers, and wakes those that sleep. */
void post(struct mailbox **boxes, int64_t count, int32_t state) {
    for (int64_t n = 0; n < count; n++) {
        WRITE(boxes[n]->state, state);
        if (READ(boxes[n]->sleeping))
            syscall(SYS_FUTEX, boxes[n], (int64_t)FUTEX_WAKE, (int64_t)1);
    }
}

/* Takes back the jobs that no worker has claimed yet. */
static void cancel(struct mailbox **boxes, int64_t count, int32_t *pending) {
    for (int64_t n = 0; n < count; n++)
        if (replace(&boxes[n]->state, HAS_JOB, IDLE))
            __atomic_fetch_sub(pending, 1, __ATOMIC_SEQ_CST);
}

/* Waits until no job is pending, but not past `tick` nanoseconds (below one second) nor past a
   signal. Returns how many are left. */
int32_t await(int32_t *pending, int64_t tick) {
    int64_t time[2] = {0, tick};
    int64_t since = nanoseconds(CLOCK_MONOTONIC);
    int32_t left;
    while ((left = __atomic_load_n(pending, __ATOMIC_ACQUIRE)) != 0) {
        if ((uint64_t)(nanoseconds(CLOCK_MONOTONIC) - since) >= BUSY_NANOSECONDS) {
            syscall(SYS_FUTEX, pending, (int64_t)FUTEX_WAIT, left, time);
            return __atomic_load_n(pending, __ATOMIC_ACQUIRE);
        }
        pause_processor();
    }
    return 0;
}

/* Hands `count` workers a launch each, `stride` bytes apart (0: all have one launch), takes part in
   the first unless `arena` is null, then awaits them. */
int32_t share(struct mailbox **boxes, int64_t count, run_function *entry, char *launch,
              int64_t stride, void *arena, int32_t *pending, int64_t tick) {
    __atomic_fetch_add(pending, (int32_t)count, __ATOMIC_SEQ_CST);
    for (int64_t n = 0; n < count; n++) {
        boxes[n]->entry = entry;
        boxes[n]->launch = launch + n * stride;
        boxes[n]->pending = pending;
    }
    post(boxes, count, HAS_JOB);
    if (arena) {
        entry(launch, arena);
        /* No program is left: workers that have not begun need not, and nobody waits for them. */
        cancel(boxes, count, pending);
    }
    return await(pending, tick);
}

/* Takes one of the positions that waiting runners gave back; -1 if there is none. */
static int64_t take_returned(struct launch *shared) {
    struct runner *giver = READ(shared->first_return);
    for (; giver; giver = giver->returned_link) {
        int64_t position = ADD(giver->returned_next, 1);
        if (position < giver->returned_end) {
            __atomic_fetch_sub(&shared->returned, 1, __ATOMIC_SEQ_CST);
            return position;
        }
    }
    return -1;
}

/* A runner that waits gives back what it took beyond its program, which another one may need. From
   then on programs are taken one by one, so that a runner gives back once at most. */
static void hand_back(struct runner *runner) {
    struct launch *shared = runner->shared;
    WRITE(shared->contended, 1);
    int64_t next = runner->next, end = runner->end;
    if (next >= end)
        return;
    runner->next = end;
    runner->returned_next = next;
    runner->returned_end = end;
    struct runner *first = READ(shared->first_return);
    do
        runner->returned_link = first;
    while (!__atomic_compare_exchange_n(&shared->first_return, &first, runner, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST));
    ADD(shared->returned, end - next);
}

/* Takes the position of a program to run; -1 if none is left. */
static int64_t take_position(struct runner *runner) {
    struct launch *shared = runner->shared;
    int64_t count = shared->head.count;
    while (!__atomic_load_n(&shared->head.abort, __ATOMIC_RELAXED)) {
        if (runner->next < runner->end)
            return runner->next++;
        if (READ(shared->returned) > 0) {
            int64_t position = take_returned(shared);
            if (position >= 0)
                return position;
        }
        /* Some at once as long as no program waits: neighbours mostly touch neighbouring memory. */
        int64_t size = READ(shared->contended) ? 1 : shared->head.batch;
        int64_t position = ADD(shared->head.next, size);
        runner->end = least(position + size, count);
        if (position < count) {
            runner->next = position + 1;
            return position;
        }
        runner->next = count;
        if (READ(shared->returned) <= 0) /* one may have been given back since */
            break;
    }
    return -1;
}

/* Runs programs, each as a launch of its own, until none is left. */
void run_each(struct runner *runner, void *arena) {
    const int64_t *order = runner->shared->head.order;
    int64_t position;
    while ((position = take_position(runner)) >= 0) {
        int64_t id = order ? order[position] : position;
        WRITE(runner->position, position);
        WRITE(runner->program, id);
        runner->launch.next = id;
        runner->launch.count = id + 1;
        runner->entry(runner, arena);
        WRITE(runner->site, -1);
        WRITE(runner->calls, 0);
        WRITE(runner->program, -1);
        ADD(runner->finished, 1);
    }
}

/* Lets others run: busy at first, then yields, then sleeps 50 us, doubling every 8 calls up to what
   the launch allows, which is more the more programs wait. */
static void back_off(struct runner *runner, uint64_t calls) {
    if (calls < 4) {
        pause_processor();
    } else if (calls < 24) {
        sched_yield();
    } else {
        uint64_t limit = __atomic_load_n(&runner->shared->longest_sleep, __ATOMIC_RELAXED);
        uint64_t patience = (uint64_t)50000 << least((calls - 24) >> 3, 10);
        int64_t time[2] = {0, least(patience, limit)};
        nanosleep(time, 0);
    }
}

/* The callback of such launches: counts a wait and backs off; all else goes to Python. */
int32_t callback(struct runner *runner, uint64_t program, int32_t kind, int32_t site,
                 void *payload) {
    if (kind != KIND_SPIN) {
        /* What Python does with a wait's own records is not work of the program. */
        int64_t before = nanoseconds(CLOCK_THREAD);
        int32_t verdict = runner->callback(runner->shared, program, kind, site, payload);
        runner->cpu += nanoseconds(CLOCK_THREAD) - before;
        return verdict;
    }
    hand_back(runner);
    uint64_t iterations = (uint64_t)payload, before = runner->iterations;
    runner->iterations = iterations;
    int moved = runner->site != (int64_t)(uint32_t)site;
    int again = iterations != 0 && iterations <= before;
    /* 64 iterations that took the CPU this long were no wait but work. */
    int worked = (uint64_t)(nanoseconds(CLOCK_THREAD) - runner->cpu) > 500000;
    if (moved || again || worked) {
        WRITE(runner->calls, 0);
        WRITE(runner->site, (int64_t)(uint32_t)site);
        ADD(runner->instance, 1);
    }
    back_off(runner, ADD(runner->calls, 1));
    runner->cpu = nanoseconds(CLOCK_THREAD);
    return __atomic_load_n(&runner->launch.abort, __ATOMIC_RELAXED);
}

/* The C library's `struct sigaction`. */
struct signal_action {
    void *handler;
    uint64_t mask[16];
    int32_t flags;
    void *restorer;
};
SIZE(struct signal_action, SIGACTION_BYTES);

/* The texts that are written when a signal kills the process; they may be null. */
static struct crash_report {
    const char *head;
    const char *kernel;
    const char *advice;
    const char *compiled; /* the whole report of a thread that is inside of LLVM */
    uint64_t compiling_thread;
    struct signal_action *before; /* the handlers before, one for each signal */
} crash_report;
SIZE(struct crash_report, NOTE_BYTES);
AT(struct crash_report, kernel, NOTE_KERNEL);
AT(struct crash_report, advice, NOTE_ADVICE);
AT(struct crash_report, compiled, NOTE_COMPILED);
AT(struct crash_report, compiling_thread, NOTE_COMPILING_THREAD);
AT(struct crash_report, before, NOTE_BEFORE);
static int32_t crash_reported;

void *crash_note(void) { return &crash_report; }

static void say(const char *text) {
    if (text)
        write(2, text, strlen(text));
}

/* True if this thread is inside of LLVM. */
static int compiles(void) {
    return crash_report.compiled && crash_report.compiling_thread == pthread_self();
}

/* Hands a signal to the handler before ours. */
static void hand_on(const struct signal_action *before, int32_t number) {
    sigaction(number, &before[(uint32_t)number], 0);
    raise(number);
}

/* The handler of signals that kill: writes the report, then hands the signal on. It calls only what
   a handler may call. */
void crashed(int32_t number) {
    if (compiles()) {
        say(crash_report.compiled);
    } else if (__atomic_exchange_n(&crash_reported, 1, __ATOMIC_SEQ_CST)) {
        poll(0, 0, 1000); /* another thread writes the report and ends the process */
    } else {
        say(crash_report.head);
        say(crash_report.kernel);
        say(crash_report.advice);
    }
    hand_on(crash_report.before, number);
    WRITE(crash_reported, 0);
}

/* Called at the end of the process: LLVM ends it by `exit` where it does not abort. */
void exited(void) {
    if (compiles())
        say(crash_report.compiled);
}

/* Where signals that ask the process to end are reported. */
static struct signal_target {
    int32_t pipe;  /* their numbers are written here */
    int32_t owner; /* the process that reads them */
    int32_t ends;  /* whether SIGTERM is reported, too */
    int32_t count; /* signals reported */
    struct signal_action *before;
    void (*interrupt)(void); /* Python's `PyErr_SetInterrupt` */
} target;
SIZE(struct signal_target, SIGNAL_TARGET_BYTES);
AT(struct signal_target, owner, SIGNAL_TARGET_OWNER);
AT(struct signal_target, ends, SIGNAL_TARGET_ENDS);
AT(struct signal_target, count, SIGNAL_TARGET_COUNT);
AT(struct signal_target, before, SIGNAL_TARGET_BEFORE);
AT(struct signal_target, interrupt, SIGNAL_TARGET_INTERRUPT);

void *signal_target(void) { return &target; }

/* The handler of such a signal: writes its number to a pipe. SIGINT becomes Python's before the
   reader of the pipe sees it; the handler before is not called, since LLVM's would raise it again
   for us. Another signal that is not reported, as in a forked process, is handed on. */
void signalled(int32_t number, void *information, void *context) {
    int32_t *error = __errno_location();
    int32_t before = *error;
    int interrupts = number == SIGINT;
    int reports = target.owner == getpid() && (interrupts || target.ends);
    if (reports)
        ADD(target.count, 1);
    if (interrupts)
        target.interrupt();
    else if (!reports)
        hand_on(target.before, number);
    if (reports) {
        char byte = number;
        write(target.pipe, &byte, 1);
    }
    *error = before;
}

/* Python's main thread calls this when it comes to it: the request is answered. */
int32_t answered(int32_t *asked) {
    WRITE(*asked, 0);
    return 0;
}

/* A program leaves a loop because its launch was stopped: the first one notes where it was. */
void note_stop(struct launch_head *launch, int64_t program, int64_t site) {
    if (__atomic_exchange_n(&launch->stopped, 1, __ATOMIC_SEQ_CST))
        return;
    launch->stopped_program = program;
    launch->stopped_site = site;
}
