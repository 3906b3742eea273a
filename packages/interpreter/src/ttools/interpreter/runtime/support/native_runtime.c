/* The functions of the runtime that run without the GIL: the waiting loop of a worker, the
   distribution of a launch to workers, the driver of kernels whose programs wait for each other,
   and handlers of signals. `native_runtime.py` binds them and declares the structures. */
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

/* These depend on the machine; `native_runtime.py` defines the number and the function. */
extern const int64_t SYS_FUTEX;
void pause_processor(void);

/* The states of a mailbox, through which a worker receives jobs. */
enum { IDLE = 0, HAS_JOB = 1, MUST_EXIT = 2, RUNS_JOB = 3 };
struct mailbox {
    int32_t state; /* a futex */
    int32_t sleeping;
    run_function *entry;
    void *launch;
    void *arena;
    int32_t *pending; /* number of jobs of the launch that are not done; a futex */
    int64_t pad[3];
};
SIZE(struct mailbox, BOX_BYTES);
AT(struct mailbox, sleeping, BOX_SLEEPING);
AT(struct mailbox, entry, BOX_ENTRY);
AT(struct mailbox, launch, BOX_LAUNCH);
AT(struct mailbox, arena, BOX_ARENA);
AT(struct mailbox, pending, BOX_PENDING);

/* The state of one thread in a launch whose programs wait for each other. It begins with a launch
   of one program, which is passed to the kernel. */
struct runner {
    struct launch_head launch;
    struct launch *shared; /* the launch from which programs are taken */
    run_function *entry;
    int64_t program;    /* id of the current program; -1 between programs */
    int64_t position;   /* position of this program in the order of starting */
    int64_t calls;      /* number of callbacks from the current wait; 0: no wait is known */
    int64_t instance;   /* number of waits that this thread has begun */
    int64_t finished;   /* number of programs that this thread has finished */
    int64_t site;       /* the loop that waits */
    uint64_t iterations;
    callback_function *callback; /* for callbacks other than those of waits */
    int64_t cpu;        /* CPU time of the thread when the last call returned, in nanoseconds */
    int64_t next, end;  /* positions that it has taken but not started */
    int64_t returned_next, returned_end; /* positions that it gave back, for any thread to take */
    struct runner *returned_link;        /* the runner that gave back positions before this one */
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

/* A launch with the fields that only the runtime uses. */
struct launch {
    struct launch_head head;
    int64_t pending;
    uint64_t longest_sleep;      /* longest sleep of a waiting program, in nanoseconds */
    int64_t returned;            /* number of programs that were given back and not taken again */
    struct runner *first_return; /* the runner that gave back positions last */
    int64_t contended;           /* 1 if any program has waited */
};
AT(struct launch, longest_sleep, LAUNCH_LONGEST_SLEEP);
AT(struct launch, returned, LAUNCH_RETURNED);
AT(struct launch, first_return, LAUNCH_FIRST_RETURN);
AT(struct launch, contended, LAUNCH_CONTENDED);

#define READ(place) __atomic_load_n(&(place), __ATOMIC_SEQ_CST)
#define WRITE(place, value) __atomic_store_n(&(place), value, __ATOMIC_SEQ_CST)
#define ADD(place, value) __atomic_fetch_add(&(place), value, __ATOMIC_SEQ_CST)

/* Changes `*place` from `old` to `new`; returns 0 if it has another value. */
INLINE int replace(int32_t *place, int32_t old, int32_t new) {
    return __atomic_compare_exchange_n(place, &old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Returns the nanoseconds of a clock, such as the monotonic clock or the thread's CPU time. */
static int64_t nanoseconds(int32_t clock) {
    int64_t time[2];
    clock_gettime(clock, time);
    return time[0] * 1000000000 + time[1];
}

/* The thread routine of a worker, which repeatedly waits for a job and runs it. It waits busily for
   a short time before it sleeps. */
void *worker(struct mailbox *box) {
    /* The alternate stack for handlers of signals, which they need if this thread's stack is full.
       It is at the far end of the stack, which nothing else uses. */
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
        /* The launcher may have cancelled the job in the meantime. */
        if (!replace(&box->state, HAS_JOB, RUNS_JOB))
            continue;
        int32_t *pending = box->pending;
        box->entry(box->launch, box->arena);
        /* Become idle before the count is decremented, because the launcher may then give this
           worker the next job immediately. */
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

/* Cancels the jobs that no worker has begun yet. */
static void cancel(struct mailbox **boxes, int64_t count, int32_t *pending) {
    for (int64_t n = 0; n < count; n++)
        if (replace(&boxes[n]->state, HAS_JOB, IDLE))
            __atomic_fetch_sub(pending, 1, __ATOMIC_SEQ_CST);
}

/* Waits until no job is pending, until `tick` nanoseconds (less than a second) have passed, or
   until a signal arrives. Returns the number of pending jobs. */
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

/* Gives each of `count` workers a launch, and waits for them. The launches are `stride` bytes
   apart; if it is 0, all workers have the same launch. Unless `arena` is null, this thread takes
   part in the first launch. */
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
        /* No program is left, so workers that have not begun need not begin. */
        cancel(boxes, count, pending);
    }
    return await(pending, tick);
}

/* Takes one of the positions that waiting runners gave back; returns -1 if there is none. */
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

/* Gives back the positions that a waiting runner has taken but not started, because another program
   may wait for these programs. From then on, programs are taken one at a time, so a runner gives
   back positions at most once. */
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

/* Takes the position of a program to run; returns -1 if none is left. */
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
        /* Until a program waits, take several at once, because neighbouring programs usually access
           neighbouring memory. */
        int64_t size = READ(shared->contended) ? 1 : shared->head.batch;
        int64_t position = ADD(shared->head.next, size);
        runner->end = least(position + size, count);
        if (position < count) {
            runner->next = position + 1;
            return position;
        }
        runner->next = count;
        if (READ(shared->returned) <= 0) /* else a program has been given back in the meantime */
            break;
    }
    return -1;
}

/* Runs programs, each as a separate launch, until none is left. */
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

/* Lets other threads run. The first calls wait busily, the next ones yield, and then each call
   sleeps. A sleep takes 50 us at first, and its duration doubles every 8 calls up to the limit of
   the launch, which grows with the number of waiting programs. */
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

/* The callback of such launches. It counts the callbacks of a wait and lets other threads run. All
   other callbacks are passed to Python. */
int32_t callback(struct runner *runner, uint64_t program, int32_t kind, int32_t site,
                 void *payload) {
    if (kind != KIND_SPIN) {
        /* The time that Python takes must not count as work of the program. */
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
    /* If 64 iterations have used the CPU for this time, they were work and not a wait. */
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

/* The texts that are written if a signal kills the process; they may be null. */
static struct crash_report {
    const char *head;
    const char *kernel;
    const char *advice;
    const char *compiled; /* the whole report for a thread that is inside of LLVM */
    uint64_t compiling_thread;
    struct signal_action *before; /* the previous handlers, one for each signal */
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

/* Returns 1 if this thread is inside of LLVM. */
static int compiles(void) {
    return crash_report.compiled && crash_report.compiling_thread == pthread_self();
}

/* Passes a signal to the previous handler. */
static void hand_on(const struct signal_action *before, int32_t number) {
    sigaction(number, &before[(uint32_t)number], 0);
    raise(number);
}

/* The handler of signals that kill the process. It writes the report and passes the signal on. It
   only calls functions that are safe in a signal handler. */
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

/* Called at the end of the process, which LLVM may end by `exit` instead of aborting. */
void exited(void) {
    if (compiles())
        say(crash_report.compiled);
}

/* The target to which signals that ask the process to end are reported. */
static struct signal_target {
    int32_t pipe;  /* file descriptor to which their numbers are written */
    int32_t owner; /* the process that reads them */
    int32_t ends;  /* 1 if SIGTERM is reported, too */
    int32_t count; /* number of reported signals */
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

/* The handler of such a signal, which writes its number to a pipe. For SIGINT, Python is informed
   before the reader of the pipe can read the number. The previous handler of SIGINT is not called,
   because LLVM's handler would raise the signal again, for this handler. Any other signal that is
   not reported, for example in a forked process, is passed to the previous handler. */
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

/* Python's main thread calls this when it handles pending calls, so it has noticed the request. */
int32_t answered(int32_t *asked) {
    WRITE(*asked, 0);
    return 0;
}

/* A program calls this after leaving a loop because its launch was stopped. The first program
   records its id and the loop. */
void note_stop(struct launch_head *launch, int64_t program, int64_t site) {
    if (__atomic_exchange_n(&launch->stopped, 1, __ATOMIC_SEQ_CST))
        return;
    launch->stopped_program = program;
    launch->stopped_site = site;
}
