; See native_runtime.py: words in CAPITALS_LIKE_THESE stand for this machine's numbers.
declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare i32 @nanosleep(ptr, ptr)

; ---- a worker: waits for a job, runs it, says so; busy for a moment before it sleeps
define ptr @worker(ptr %box) {
entry:
  ; Where a handler of signals runs once this stack is full: its far end, which nothing else uses.
  %spare = alloca [ALTERNATE_STACK_BYTES x i8], align 16
  %stack = alloca [3 x i64], align 8
  store ptr %spare, ptr %stack
  %stack.flags = getelementptr i8, ptr %stack, i64 8
  store i64 0, ptr %stack.flags
  %stack.size = getelementptr i8, ptr %stack, i64 16
  store i64 ALTERNATE_STACK_BYTES, ptr %stack.size
  %installed = call i32 @sigaltstack(ptr %stack, ptr null)
  %sleeping = getelementptr i8, ptr %box, i64 BOX_SLEEPING
  br label %rest
rest:
  %since = call i64 @clock(i32 CLOCK_MONOTONIC)
  br label %idle
idle:
  %state = load atomic i32, ptr %box acquire, align 64
  switch i32 %state, label %claim [ i32 0, label %wait  i32 2, label %exit ]
wait:
  %now = call i64 @clock(i32 CLOCK_MONOTONIC)
  %waited = sub i64 %now, %since
  %patient = icmp ult i64 %waited, BUSY_NANOSECONDS
  br i1 %patient, label %busy, label %sleep
busy:
  call void PAUSE
  br label %idle
sleep:
  store atomic i32 1, ptr %sleeping seq_cst, align 4
  %slept = call i64 (i64, ...) @syscall(i64 SYS_FUTEX, ptr %box, i64 FUTEX_WAIT, i64 0, ptr null)
  store atomic i32 0, ptr %sleeping seq_cst, align 4
  br label %rest
claim:
  ; The launcher may have taken the job back in the meantime.
  %claimed = cmpxchg ptr %box, i32 1, i32 3 seq_cst seq_cst, align 64
  %ours = extractvalue { i32, i1 } %claimed, 1
  br i1 %ours, label %work, label %rest
work:
  %entry.at = getelementptr i8, ptr %box, i64 BOX_ENTRY
  %run = load ptr, ptr %entry.at
  %launch.at = getelementptr i8, ptr %box, i64 BOX_LAUNCH
  %launch = load ptr, ptr %launch.at
  %arena.at = getelementptr i8, ptr %box, i64 BOX_ARENA
  %arena = load ptr, ptr %arena.at
  %pending.at = getelementptr i8, ptr %box, i64 BOX_PENDING
  %pending = load ptr, ptr %pending.at
  call void %run(ptr %launch, ptr %arena)
  ; Idle before the count says so: the launcher may give us the next job at once.
  store atomic i32 0, ptr %box seq_cst, align 64
  %left = atomicrmw sub ptr %pending, i32 1 seq_cst
  %last = icmp eq i32 %left, 1
  br i1 %last, label %done, label %rest
done:
  %woken = call i64 (i64, ...) @syscall(i64 SYS_FUTEX, ptr %pending, i64 FUTEX_WAKE, i64 1)
  br label %rest
exit:
  ret ptr null
}

; ---- sets the state of workers and wakes those that sleep
define void @post(ptr %boxes, i64 %n, i32 %state) {
entry:
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %each, label %exit
each:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %box.at = getelementptr ptr, ptr %boxes, i64 %i
  %box = load ptr, ptr %box.at
  store atomic i32 %state, ptr %box seq_cst, align 64
  %sleeping.at = getelementptr i8, ptr %box, i64 BOX_SLEEPING
  %sleeping = load atomic i32, ptr %sleeping.at seq_cst, align 4
  %asleep = icmp ne i32 %sleeping, 0
  br i1 %asleep, label %wake, label %next
wake:
  %woken = call i64 (i64, ...) @syscall(i64 SYS_FUTEX, ptr %box, i64 FUTEX_WAKE, i64 1)
  br label %next
next:
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %n
  br i1 %more, label %each, label %exit
exit:
  ret void
}

; ---- takes back the jobs that no worker has claimed yet
define private void @cancel(ptr %boxes, i64 %n, ptr %pending) {
entry:
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %try, label %exit
try:
  %box.at = getelementptr ptr, ptr %boxes, i64 %i
  %box = load ptr, ptr %box.at
  %swapped = cmpxchg ptr %box, i32 1, i32 0 seq_cst seq_cst, align 64
  %taken = extractvalue { i32, i1 } %swapped, 1
  br i1 %taken, label %less, label %next
less:
  %before = atomicrmw sub ptr %pending, i32 1 seq_cst
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %each
exit:
  ret void
}

; ---- waits until no job is pending, but not past `tick` nanoseconds (< 1 s) or a signal;
; ---- returns how many are left
define i32 @await(ptr %pending, i64 %tick) {
entry:
  %time = alloca [2 x i64], align 8
  store i64 0, ptr %time
  %fraction = getelementptr i8, ptr %time, i64 8
  store i64 %tick, ptr %fraction
  %since = call i64 @clock(i32 CLOCK_MONOTONIC)
  br label %look
look:
  %left = load atomic i32, ptr %pending acquire, align 4
  %none = icmp eq i32 %left, 0
  br i1 %none, label %exit, label %wait
wait:
  %now = call i64 @clock(i32 CLOCK_MONOTONIC)
  %waited = sub i64 %now, %since
  %patient = icmp ult i64 %waited, BUSY_NANOSECONDS
  br i1 %patient, label %busy, label %sleep
busy:
  call void PAUSE
  br label %look
sleep:
  %slept = call i64 (i64, ...) @syscall(i64 SYS_FUTEX, ptr %pending, i64 FUTEX_WAIT,
                                        i32 %left, ptr %time)
  %rest = load atomic i32, ptr %pending acquire, align 4
  ret i32 %rest
exit:
  ret i32 0
}

; ---- hands `n` workers a launch each, `stride` bytes apart (0: all the same one), takes part in
; ---- the first unless `arena` is null, then awaits them
define i32 @share(ptr %boxes, i64 %n, ptr %run, ptr %launch, i64 %stride, ptr %arena,
                  ptr %pending, i64 %tick) {
entry:
  %n32 = trunc i64 %n to i32
  %already = atomicrmw add ptr %pending, i32 %n32 seq_cst
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i1, %fill ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %fill, label %filled
fill:
  %box.at = getelementptr ptr, ptr %boxes, i64 %i
  %box = load ptr, ptr %box.at
  %entry.at = getelementptr i8, ptr %box, i64 BOX_ENTRY
  store ptr %run, ptr %entry.at
  %launch.at = getelementptr i8, ptr %box, i64 BOX_LAUNCH
  %offset = mul i64 %i, %stride
  %own = getelementptr i8, ptr %launch, i64 %offset
  store ptr %own, ptr %launch.at
  %pending.at = getelementptr i8, ptr %box, i64 BOX_PENDING
  store ptr %pending, ptr %pending.at
  %i1 = add i64 %i, 1
  br label %each
filled:
  call void @post(ptr %boxes, i64 %n, i32 1)
  %bystander = icmp eq ptr %arena, null
  br i1 %bystander, label %wait, label %take
take:
  call void %run(ptr %launch, ptr %arena)
  ; No program is left: workers that have not begun need not, which saves waiting for them.
  call void @cancel(ptr %boxes, i64 %n, ptr %pending)
  br label %wait
wait:
  %rest = call i32 @await(ptr %pending, i64 %tick)
  ret i32 %rest
}

; ---- one of the programs that waiting runners gave back, or -1
define private i64 @take_returned(ptr %shared) {
entry:
  %returned.at = getelementptr i8, ptr %shared, i64 RETURNED
  %first.at = getelementptr i8, ptr %shared, i64 FIRST_RETURN
  %first = load atomic ptr, ptr %first.at seq_cst, align 8
  br label %look
look:
  %giver = phi ptr [ %first, %entry ], [ %link, %used_up ]
  %none = icmp eq ptr %giver, null
  br i1 %none, label %nothing, label %try
try:
  %next.at = getelementptr i8, ptr %giver, i64 RUN_RETURNED_NEXT
  %position = atomicrmw add ptr %next.at, i64 1 seq_cst
  %end.at = getelementptr i8, ptr %giver, i64 RUN_RETURNED_END
  %end = load i64, ptr %end.at
  %more = icmp slt i64 %position, %end
  br i1 %more, label %taken, label %used_up
used_up:
  %link.at = getelementptr i8, ptr %giver, i64 RUN_RETURNED_LINK
  %link = load ptr, ptr %link.at
  br label %look
taken:
  %before = atomicrmw sub ptr %returned.at, i64 1 seq_cst
  ret i64 %position
nothing:
  ret i64 -1
}

; ---- a runner that waits gives back what it took beyond its program: another may need it. From
; ---- then on programs are taken one by one, so that a runner gives back once at most.
define private void @hand_back(ptr %runner) {
entry:
  %shared.at = getelementptr i8, ptr %runner, i64 RUN_SHARED
  %shared = load ptr, ptr %shared.at
  %contended.at = getelementptr i8, ptr %shared, i64 CONTENDED
  store atomic i64 1, ptr %contended.at seq_cst, align 8
  %next.at = getelementptr i8, ptr %runner, i64 RUN_NEXT
  %next = load i64, ptr %next.at
  %end.at = getelementptr i8, ptr %runner, i64 RUN_END
  %end = load i64, ptr %end.at
  %any = icmp slt i64 %next, %end
  br i1 %any, label %give, label %exit
give:
  store i64 %end, ptr %next.at
  %returned.next.at = getelementptr i8, ptr %runner, i64 RUN_RETURNED_NEXT
  store i64 %next, ptr %returned.next.at
  %returned.end.at = getelementptr i8, ptr %runner, i64 RUN_RETURNED_END
  store i64 %end, ptr %returned.end.at
  %link.at = getelementptr i8, ptr %runner, i64 RUN_RETURNED_LINK
  %first.at = getelementptr i8, ptr %shared, i64 FIRST_RETURN
  br label %push
push:
  %first = load atomic ptr, ptr %first.at seq_cst, align 8
  store ptr %first, ptr %link.at
  %swapped = cmpxchg ptr %first.at, ptr %first, ptr %runner seq_cst seq_cst, align 8
  %pushed = extractvalue { ptr, i1 } %swapped, 1
  br i1 %pushed, label %count, label %push
count:
  %number = sub i64 %end, %next
  %returned.at = getelementptr i8, ptr %shared, i64 RETURNED
  %before = atomicrmw add ptr %returned.at, i64 %number seq_cst
  br label %exit
exit:
  ret void
}

; ---- takes programs and runs each as a launch of its own: some at once as long as none waits,
; ---- for neighbours mostly touch neighbouring memory
define void @run_each(ptr %runner, ptr %arena) {
entry:
  %shared.at = getelementptr i8, ptr %runner, i64 RUN_SHARED
  %shared = load ptr, ptr %shared.at
  %run.at = getelementptr i8, ptr %runner, i64 RUN_ENTRY
  %run = load ptr, ptr %run.at
  %program.at = getelementptr i8, ptr %runner, i64 RUN_PROGRAM
  %position.at = getelementptr i8, ptr %runner, i64 RUN_POSITION
  %calls.at = getelementptr i8, ptr %runner, i64 RUN_CALLS
  %site.at = getelementptr i8, ptr %runner, i64 RUN_SITE
  %finished.at = getelementptr i8, ptr %runner, i64 RUN_FINISHED
  %abort.at = getelementptr i8, ptr %shared, i64 ABORT
  %count.at = getelementptr i8, ptr %shared, i64 COUNT
  %count = load i64, ptr %count.at
  %limit.at = getelementptr i8, ptr %runner, i64 COUNT
  %order.at = getelementptr i8, ptr %shared, i64 ORDER
  %order = load ptr, ptr %order.at
  %natural = icmp eq ptr %order, null
  %next.at = getelementptr i8, ptr %runner, i64 RUN_NEXT
  %end.at = getelementptr i8, ptr %runner, i64 RUN_END
  %batch.at = getelementptr i8, ptr %shared, i64 BATCH
  %batch = load i64, ptr %batch.at
  %contended.at = getelementptr i8, ptr %shared, i64 CONTENDED
  %returned.at = getelementptr i8, ptr %shared, i64 RETURNED
  br label %take
take:
  %abort = load atomic i32, ptr %abort.at monotonic, align 4
  %stop = icmp ne i32 %abort, 0
  br i1 %stop, label %exit, label %next
next:
  %own = load i64, ptr %next.at
  %own.end = load i64, ptr %end.at
  %owns = icmp slt i64 %own, %own.end
  br i1 %owns, label %hold, label %ask
ask:
  %returned = load atomic i64, ptr %returned.at seq_cst, align 8
  %some = icmp sgt i64 %returned, 0
  br i1 %some, label %reuse, label %fetch
reuse:
  %reused = call i64 @take_returned(ptr %shared)
  %found = icmp sge i64 %reused, 0
  br i1 %found, label %start, label %fetch
fetch:
  %contended = load atomic i64, ptr %contended.at seq_cst, align 8
  %calm = icmp eq i64 %contended, 0
  %size = select i1 %calm, i64 %batch, i64 1
  %fetched = atomicrmw add ptr %shared, i64 %size seq_cst
  %beyond = add i64 %fetched, %size
  %fetched.end = call i64 @llvm.umin.i64(i64 %beyond, i64 %count)
  store i64 %fetched.end, ptr %end.at
  %more = icmp slt i64 %fetched, %count
  br i1 %more, label %hold, label %late
late:
  store i64 %count, ptr %next.at
  ; One may have been given back since.
  %late.returned = load atomic i64, ptr %returned.at seq_cst, align 8
  %again = icmp sgt i64 %late.returned, 0
  br i1 %again, label %take, label %exit
hold:
  %held = phi i64 [ %own, %next ], [ %fetched, %fetch ]
  %after = add i64 %held, 1
  store i64 %after, ptr %next.at
  br label %start
start:
  %position = phi i64 [ %held, %hold ], [ %reused, %reuse ]
  br i1 %natural, label %go, label %lookup
lookup:
  %id.at = getelementptr i64, ptr %order, i64 %position
  %listed = load i64, ptr %id.at
  br label %go
go:
  %id = phi i64 [ %position, %start ], [ %listed, %lookup ]
  store atomic i64 %position, ptr %position.at seq_cst, align 8
  store atomic i64 %id, ptr %program.at seq_cst, align 8
  store i64 %id, ptr %runner
  %limit = add i64 %id, 1
  store i64 %limit, ptr %limit.at
  call void %run(ptr %runner, ptr %arena)
  store atomic i64 -1, ptr %site.at seq_cst, align 8
  store atomic i64 0, ptr %calls.at seq_cst, align 8
  store atomic i64 -1, ptr %program.at seq_cst, align 8
  %finished = atomicrmw add ptr %finished.at, i64 1 seq_cst
  br label %take
exit:
  ret void
}

; ---- the callback of such launches: counts a wait and backs off; all else goes to Python
define i32 @callback(ptr %runner, i64 %program, i32 %kind, i32 %site, ptr %payload) {
entry:
  %spin = icmp eq i32 %kind, 3
  br i1 %spin, label %count, label %python
python:
  %callback.at = getelementptr i8, ptr %runner, i64 RUN_CALLBACK
  %callback = load ptr, ptr %callback.at
  %shared.at = getelementptr i8, ptr %runner, i64 RUN_SHARED
  %shared = load ptr, ptr %shared.at
  ; What Python does with a wait's own records is not work of the program.
  %python.before = call i64 @clock(i32 CLOCK_THREAD)
  %verdict = call i32 %callback(ptr %shared, i64 %program, i32 %kind, i32 %site, ptr %payload)
  %python.after = call i64 @clock(i32 CLOCK_THREAD)
  %python.taken = sub i64 %python.after, %python.before
  %python.cpu.at = getelementptr i8, ptr %runner, i64 RUN_CPU
  %cpu.until = load i64, ptr %python.cpu.at
  %cpu.beyond = add i64 %cpu.until, %python.taken
  store i64 %cpu.beyond, ptr %python.cpu.at
  ret i32 %verdict
count:
  call void @hand_back(ptr %runner)
  %calls.at = getelementptr i8, ptr %runner, i64 RUN_CALLS
  %site.at = getelementptr i8, ptr %runner, i64 RUN_SITE
  %iterations.at = getelementptr i8, ptr %runner, i64 RUN_ITERATIONS
  %instance.at = getelementptr i8, ptr %runner, i64 RUN_INSTANCE
  %iterations = ptrtoint ptr %payload to i64
  %before = load i64, ptr %iterations.at
  %site.before = load i64, ptr %site.at
  %site64 = zext i32 %site to i64
  store i64 %iterations, ptr %iterations.at
  %moved = icmp ne i64 %site.before, %site64
  %known = icmp ne i64 %iterations, 0
  %fewer = icmp ule i64 %iterations, %before
  %again = and i1 %known, %fewer
  ; 64 iterations that took the CPU this long were no wait but work.
  %cpu.at = getelementptr i8, ptr %runner, i64 RUN_CPU
  %cpu.before = load i64, ptr %cpu.at
  %cpu.now = call i64 @clock(i32 CLOCK_THREAD)
  %cpu.taken = sub i64 %cpu.now, %cpu.before
  %worked = icmp ugt i64 %cpu.taken, 500000
  %other = or i1 %moved, %again
  %fresh = or i1 %other, %worked
  br i1 %fresh, label %begin, label %go_on
begin:
  store atomic i64 0, ptr %calls.at seq_cst, align 8
  store atomic i64 %site64, ptr %site.at seq_cst, align 8
  %instance = atomicrmw add ptr %instance.at, i64 1 seq_cst
  br label %go_on
go_on:
  %calls = atomicrmw add ptr %calls.at, i64 1 seq_cst
  call void @back_off(ptr %runner, i64 %calls)
  %cpu.after = call i64 @clock(i32 CLOCK_THREAD)
  store i64 %cpu.after, ptr %cpu.at
  %abort.at = getelementptr i8, ptr %runner, i64 ABORT
  %abort = load atomic i32, ptr %abort.at monotonic, align 4
  ret i32 %abort
}

; ---- nanoseconds of a clock: of the time, or of what this thread has had of the CPU
define private i64 @clock(i32 %clock) {
entry:
  %time = alloca [2 x i64], align 8
  %failed = call i32 @clock_gettime(i32 %clock, ptr %time)
  %seconds = load i64, ptr %time
  %fraction.at = getelementptr i8, ptr %time, i64 8
  %fraction = load i64, ptr %fraction.at
  %whole = mul i64 %seconds, 1000000000
  %nanoseconds = add i64 %whole, %fraction
  ret i64 %nanoseconds
}

; ---- busy at first, then yields, then sleeps 50 us, doubling every 8 calls up to what the
; ---- launch allows, which is more the more programs wait
define private void @back_off(ptr %runner, i64 %calls) {
entry:
  %time = alloca [2 x i64], align 8
  %early = icmp ult i64 %calls, 4
  br i1 %early, label %busy, label %later
busy:
  call void PAUSE
  ret void
later:
  %soon = icmp ult i64 %calls, 24
  br i1 %soon, label %yield, label %sleep
yield:
  %yielded = call i32 @sched_yield()
  ret void
sleep:
  %shared.at = getelementptr i8, ptr %runner, i64 RUN_SHARED
  %shared = load ptr, ptr %shared.at
  %limit.at = getelementptr i8, ptr %shared, i64 LONGEST_SLEEP
  %limit = load atomic i64, ptr %limit.at monotonic, align 8
  %beyond = sub i64 %calls, 24
  %doublings = lshr i64 %beyond, 3
  %few = call i64 @llvm.umin.i64(i64 %doublings, i64 10)
  %patience = shl i64 50000, %few
  %nanoseconds = call i64 @llvm.umin.i64(i64 %patience, i64 %limit)
  store i64 0, ptr %time
  %fraction = getelementptr i8, ptr %time, i64 8
  store i64 %nanoseconds, ptr %fraction
  %slept = call i32 @nanosleep(ptr %time, ptr null)
  ret void
}
declare i64 @llvm.umin.i64(i64, i64)

declare i32 @sigaltstack(ptr, ptr)

; ---- what to write when the process is killed, see `crash_note.Note`
@crash.note = internal global [NOTE_BYTES x i8] zeroinitializer, align 8
declare i64 @strlen(ptr)
declare i64 @write(i32, ptr, i64)
declare i32 @sigaction(i32, ptr, ptr)
declare i32 @raise(i32)
declare i64 @pthread_self()

define ptr @crash_note() {
entry:
  ret ptr @crash.note
}

; ---- writes the text that a field of the note points to, unless that is null
define private void @say(i64 %field) {
entry:
  %text.at = getelementptr i8, ptr @crash.note, i64 %field
  %text = load ptr, ptr %text.at
  %none = icmp eq ptr %text, null
  br i1 %none, label %exit, label %say
say:
  %length = call i64 @strlen(ptr %text)
  %written = call i64 @write(i32 2, ptr %text, i64 %length)
  br label %exit
exit:
  ret void
}

; ---- whether this thread is inside of LLVM
define private i1 @compiles() {
entry:
  %compiled.at = getelementptr i8, ptr @crash.note, i64 NOTE_COMPILED
  %compiled = load ptr, ptr %compiled.at
  %any = icmp ne ptr %compiled, null
  %thread.at = getelementptr i8, ptr @crash.note, i64 NOTE_COMPILING_THREAD
  %thread = load i64, ptr %thread.at
  %self = call i64 @pthread_self()
  %same = icmp eq i64 %thread, %self
  %compiles = and i1 %any, %same
  ret i1 %compiles
}

; ---- the handler of signals that kill: writes the note, then hands the signal to who had it
; ---- before. Calls only what may be called in a handler.
@crash.said = internal global i32 0
declare i32 @poll(ptr, i64, i32)

define void @crashed(i32 %number) {
entry:
  %compiles = call i1 @compiles()
  br i1 %compiles, label %compiler, label %kernel
compiler:
  call void @say(i64 NOTE_COMPILED)
  br label %hand_on
kernel:
  %said = atomicrmw xchg ptr @crash.said, i32 1 seq_cst
  %again = icmp ne i32 %said, 0
  br i1 %again, label %wait, label %tell
wait: ; for the thread that writes the note, which ends the process
  %slept = call i32 @poll(ptr null, i64 0, i32 1000)
  br label %hand_on
tell:
  call void @say(i64 NOTE_HEAD)
  call void @say(i64 NOTE_KERNEL)
  call void @say(i64 NOTE_ADVICE)
  br label %hand_on
hand_on:
  %before.at = getelementptr i8, ptr @crash.note, i64 NOTE_BEFORE
  %before = load ptr, ptr %before.at
  %number64 = zext i32 %number to i64
  %offset = mul i64 %number64, SIGACTION_BYTES
  %old = getelementptr i8, ptr %before, i64 %offset
  %restored = call i32 @sigaction(i32 %number, ptr %old, ptr null)
  %raised = call i32 @raise(i32 %number)
  store atomic i32 0, ptr @crash.said seq_cst, align 4
  ret void
}

; ---- at the end of the process: LLVM ends it by `exit` where it does not abort
define void @exited() {
entry:
  %compiles = call i1 @compiles()
  br i1 %compiles, label %compiler, label %done
compiler:
  call void @say(i64 NOTE_COMPILED)
  br label %done
done:
  ret void
}

; ---- where signals that ask the process to end are reported, see `SignalTarget`
@signal.target = internal global [SIGNAL_TARGET_BYTES x i8] zeroinitializer, align 8
declare i32 @getpid()
declare ptr @__errno_location()

define ptr @signal_target() {
entry:
  ret ptr @signal.target
}

; ---- the handler of such a signal: writes its number to a pipe. SIGINT becomes Python's, before
; ---- the reader of the pipe sees it; whoever had it is not called, since LLVM's handler would raise
; ---- it again, for us. Another signal that no report waits for, as in a forked process, is as if
; ---- this one were not there.
define void @signalled(i32 %number, ptr %information, ptr %context) {
entry:
  %errno.at = call ptr @__errno_location()
  %errno = load i32, ptr %errno.at
  %byte = alloca i8
  %interrupt = icmp eq i32 %number, SIGINT
  %owner.at = getelementptr i8, ptr @signal.target, i64 SIGNAL_TARGET_OWNER
  %owner = load i32, ptr %owner.at
  %self = call i32 @getpid()
  %ours = icmp eq i32 %owner, %self
  %ends.at = getelementptr i8, ptr @signal.target, i64 SIGNAL_TARGET_ENDS
  %ends = load i32, ptr %ends.at
  %awaited = icmp ne i32 %ends, 0
  %wanted = or i1 %interrupt, %awaited
  %reports = and i1 %ours, %wanted
  br i1 %reports, label %report, label %other
other:
  br i1 %interrupt, label %python, label %leave
leave:
  %before.at = getelementptr i8, ptr @signal.target, i64 SIGNAL_TARGET_BEFORE
  %before = load ptr, ptr %before.at
  %number64 = zext i32 %number to i64
  %offset = mul i64 %number64, SIGACTION_BYTES
  %old = getelementptr i8, ptr %before, i64 %offset
  %restored = call i32 @sigaction(i32 %number, ptr %old, ptr null)
  %raised = call i32 @raise(i32 %number)
  br label %done
report:
  %count.at = getelementptr i8, ptr @signal.target, i64 SIGNAL_TARGET_COUNT
  %counted = atomicrmw add ptr %count.at, i32 1 seq_cst
  br i1 %interrupt, label %python, label %tell
python:
  %set.at = getelementptr i8, ptr @signal.target, i64 SIGNAL_TARGET_INTERRUPT
  %set = load ptr, ptr %set.at
  call void %set()
  br i1 %reports, label %tell, label %done
tell:
  %short = trunc i32 %number to i8
  store i8 %short, ptr %byte
  %pipe.at = getelementptr i8, ptr @signal.target, i64 SIGNAL_TARGET_PIPE
  %pipe = load i32, ptr %pipe.at
  %written = call i64 @write(i32 %pipe, ptr %byte, i64 1)
  br label %done
done:
  store i32 %errno, ptr %errno.at
  ret void
}

; ---- Python's main thread calls it when it gets round to it: what was asked is answered
define i32 @answered(ptr %asked) {
entry:
  store atomic i32 0, ptr %asked seq_cst, align 4
  ret i32 0
}

; ---- a program leaves a loop because its launch was stopped: the first one notes where it was
define void @note_stop(ptr %launch, i64 %program, i64 %site) cold {
entry:
  %stopped.at = getelementptr i8, ptr %launch, i64 STOPPED
  %program.at = getelementptr i8, ptr %launch, i64 STOPPED_PROGRAM
  %site.at = getelementptr i8, ptr %launch, i64 STOPPED_SITE
  %before = atomicrmw xchg ptr %stopped.at, i64 1 seq_cst
  %first = icmp eq i64 %before, 0
  br i1 %first, label %note, label %done
note:
  store i64 %program, ptr %program.at
  store i64 %site, ptr %site.at
  br label %done
done:
  ret void
}
