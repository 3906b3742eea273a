; Made of native_runtime.c by `python -m tools.native_code`; change that file.
; 467df4594b233825
%struct.crash_report = type { ptr, ptr, ptr, ptr, i64, ptr }
%struct.signal_target = type { i32, i32, i32, i32, ptr, ptr }
%struct.anon = type { ptr, i64, i64 }
%struct.signal_action = type { ptr, [16 x i64], i32, ptr }

@SYS_FUTEX = external constant i64, align 8
@crash_report = internal global %struct.crash_report zeroinitializer, align 8
@crash_reported = internal global i32 0, align 4
@target = internal global %struct.signal_target zeroinitializer, align 8

define ptr @worker(ptr %box) {
entry:
  %spare = alloca [65536 x i8], align 16
  %stack = alloca %struct.anon, align 8
  store ptr %spare, ptr %stack, align 8
  %flags = getelementptr inbounds i8, ptr %stack, i64 8
  store i64 0, ptr %flags, align 8
  %size = getelementptr inbounds i8, ptr %stack, i64 16
  store i64 65536, ptr %size, align 8
  %call = call i32 @sigaltstack(ptr %stack, ptr null)
  %sleeping = getelementptr inbounds i8, ptr %box, i64 4
  %0 = load i64, ptr @SYS_FUTEX, align 8
  %pending16 = getelementptr inbounds i8, ptr %box, i64 32
  %entry17 = getelementptr inbounds i8, ptr %box, i64 8
  %launch = getelementptr inbounds i8, ptr %box, i64 16
  %arena = getelementptr inbounds i8, ptr %box, i64 24
  br label %while.cond.outer

while.cond.outer:
  %call8 = call fastcc i64 @nanoseconds(i32 1)
  br label %while.cond

while.cond:
  %1 = load atomic i32, ptr %box acquire, align 8
  switch i32 %1, label %if.end11 [
    i32 0, label %while.body
    i32 2, label %cleanup27
  ]

while.body:
  %call3 = call fastcc i64 @nanoseconds(i32 1)
  %sub = sub i64 %call3, %call8
  %cmp4 = icmp ult i64 %sub, 300000
  br i1 %cmp4, label %if.then, label %if.end

if.then:
  call void @pause_processor()
  br label %while.cond

if.end:
  store atomic i32 1, ptr %sleeping seq_cst, align 4
  %call5 = call i64 (i64, ...) @syscall(i64 %0, ptr %box, i64 128, i64 0, ptr null)
  store atomic i32 0, ptr %sleeping seq_cst, align 4
  br label %while.cond.outer.backedge

while.cond.outer.backedge:
  br label %while.cond.outer

if.end11:
  %2 = cmpxchg ptr %box, i32 1, i32 3 seq_cst seq_cst, align 4
  %3 = extractvalue { i32, i1 } %2, 1
  br i1 %3, label %if.end15, label %while.cond.outer.backedge

if.end15:
  %4 = load ptr, ptr %pending16, align 8
  %5 = load ptr, ptr %entry17, align 8
  %6 = load ptr, ptr %launch, align 8
  %7 = load ptr, ptr %arena, align 8
  call void %5(ptr %6, ptr %7)
  store atomic i32 0, ptr %box seq_cst, align 8
  %8 = atomicrmw sub ptr %4, i32 1 seq_cst, align 4
  %cmp22 = icmp eq i32 %8, 1
  br i1 %cmp22, label %if.then23, label %while.cond.outer.backedge

if.then23:
  %call24 = call i64 (i64, ...) @syscall(i64 %0, ptr %4, i64 129, i64 1)
  br label %while.cond.outer.backedge

cleanup27:
  ret ptr null
}

declare i32 @sigaltstack(ptr, ptr)

define internal fastcc i64 @nanoseconds(i32 %clock) {
entry:
  %time = alloca [2 x i64], align 16
  %call = call i32 @clock_gettime(i32 %clock, ptr %time)
  %0 = load i64, ptr %time, align 16
  %mul = mul i64 %0, 1000000000
  %arrayidx1 = getelementptr inbounds i8, ptr %time, i64 8
  %1 = load i64, ptr %arrayidx1, align 8
  %add = add i64 %mul, %1
  ret i64 %add
}

declare void @pause_processor()

declare i64 @syscall(i64, ...)

define void @post(ptr %boxes, i64 %count, i32 %state) {
entry:
  %0 = load i64, ptr @SYS_FUTEX, align 8
  %smax = call i64 @llvm.smax.i64(i64 %count, i64 0)
  br label %for.cond

for.cond:
  %n.0 = phi i64 [ 0, %entry ], [ %inc, %for.inc ]
  %exitcond.not = icmp eq i64 %n.0, %smax
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body

for.cond.cleanup:
  ret void

for.body:
  %arrayidx = getelementptr ptr, ptr %boxes, i64 %n.0
  %1 = load ptr, ptr %arrayidx, align 8
  store atomic i32 %state, ptr %1 seq_cst, align 8
  %2 = load ptr, ptr %arrayidx, align 8
  %sleeping = getelementptr inbounds i8, ptr %2, i64 4
  %3 = load atomic i32, ptr %sleeping seq_cst, align 4
  %tobool.not = icmp eq i32 %3, 0
  br i1 %tobool.not, label %for.inc, label %if.then

if.then:
  %4 = load ptr, ptr %arrayidx, align 8
  %call = call i64 (i64, ...) @syscall(i64 %0, ptr %4, i64 129, i64 1)
  br label %for.inc

for.inc:
  %inc = add nuw i64 %n.0, 1
  br label %for.cond
}

define i32 @await(ptr %pending, i64 %tick) {
entry:
  %time = alloca [2 x i64], align 16
  store i64 0, ptr %time, align 16
  %arrayinit.element = getelementptr inbounds i8, ptr %time, i64 8
  store i64 %tick, ptr %arrayinit.element, align 8
  %call = call fastcc i64 @nanoseconds(i32 1)
  br label %while.cond

while.cond:
  %0 = load atomic i32, ptr %pending acquire, align 4
  %cmp.not = icmp eq i32 %0, 0
  br i1 %cmp.not, label %cleanup, label %while.body

while.body:
  %call1 = call fastcc i64 @nanoseconds(i32 1)
  %sub = sub i64 %call1, %call
  %cmp2 = icmp ugt i64 %sub, 299999
  br i1 %cmp2, label %if.then, label %if.end

if.then:
  %1 = load i64, ptr @SYS_FUTEX, align 8
  %call3 = call i64 (i64, ...) @syscall(i64 %1, ptr %pending, i64 128, i32 %0, ptr %time)
  %2 = load atomic i32, ptr %pending acquire, align 4
  br label %cleanup

if.end:
  call void @pause_processor()
  br label %while.cond

cleanup:
  %retval.0 = phi i32 [ %2, %if.then ], [ 0, %while.cond ]
  ret i32 %retval.0
}

define i32 @share(ptr %boxes, i64 %count, ptr %entry1, ptr %launch, i64 %stride, ptr %arena, ptr %pending, i64 %tick) {
entry:
  %conv = trunc i64 %count to i32
  %0 = atomicrmw add ptr %pending, i32 %conv seq_cst, align 4
  %smax = call i64 @llvm.smax.i64(i64 %count, i64 0)
  br label %for.cond

for.cond:
  %n.0 = phi i64 [ 0, %entry ], [ %inc, %for.body ]
  %exitcond.not = icmp eq i64 %n.0, %smax
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body

for.cond.cleanup:
  call void @post(ptr %boxes, i64 %count, i32 1)
  %tobool.not = icmp eq ptr %arena, null
  br i1 %tobool.not, label %if.end, label %if.then

for.body:
  %arrayidx = getelementptr ptr, ptr %boxes, i64 %n.0
  %1 = load ptr, ptr %arrayidx, align 8
  %entry3 = getelementptr inbounds i8, ptr %1, i64 8
  store ptr %entry1, ptr %entry3, align 8
  %mul = mul i64 %n.0, %stride
  %add.ptr = getelementptr i8, ptr %launch, i64 %mul
  %2 = load ptr, ptr %arrayidx, align 8
  %launch5 = getelementptr inbounds i8, ptr %2, i64 16
  store ptr %add.ptr, ptr %launch5, align 8
  %3 = load ptr, ptr %arrayidx, align 8
  %pending7 = getelementptr inbounds i8, ptr %3, i64 32
  store ptr %pending, ptr %pending7, align 8
  %inc = add nuw i64 %n.0, 1
  br label %for.cond

if.then:
  call void %entry1(ptr %launch, ptr %arena)
  br label %for.cond.i

for.cond.i:
  %n.0.i = phi i64 [ 0, %if.then ], [ %inc.i, %for.inc.i ]
  %exitcond.not.i = icmp eq i64 %n.0.i, %smax
  br i1 %exitcond.not.i, label %if.end, label %for.body.i

for.body.i:
  %arrayidx.i = getelementptr ptr, ptr %boxes, i64 %n.0.i
  %4 = load ptr, ptr %arrayidx.i, align 8
  %5 = cmpxchg ptr %4, i32 1, i32 0 seq_cst seq_cst, align 4
  %6 = extractvalue { i32, i1 } %5, 1
  br i1 %6, label %if.then.i, label %for.inc.i

if.then.i:
  %7 = atomicrmw sub ptr %pending, i32 1 seq_cst, align 4
  br label %for.inc.i

for.inc.i:
  %inc.i = add nuw i64 %n.0.i, 1
  br label %for.cond.i

if.end:
  %call = call i32 @await(ptr %pending, i64 %tick)
  ret i32 %call
}

define void @run_each(ptr %runner, ptr %arena) {
entry:
  %shared = getelementptr inbounds i8, ptr %runner, i64 128
  %0 = load ptr, ptr %shared, align 8
  %order1 = getelementptr inbounds i8, ptr %0, i64 16
  %1 = load ptr, ptr %order1, align 8
  %next.i = getelementptr inbounds i8, ptr %runner, i64 216
  %end.i = getelementptr inbounds i8, ptr %runner, i64 224
  %tobool.not = icmp eq ptr %1, null
  %position2 = getelementptr inbounds i8, ptr %runner, i64 152
  %program = getelementptr inbounds i8, ptr %runner, i64 144
  %count = getelementptr inbounds i8, ptr %runner, i64 8
  %entry5 = getelementptr inbounds i8, ptr %runner, i64 136
  %site = getelementptr inbounds i8, ptr %runner, i64 184
  %calls = getelementptr inbounds i8, ptr %runner, i64 160
  %finished = getelementptr inbounds i8, ptr %runner, i64 176
  br label %while.cond

while.cond:
  %2 = phi ptr [ %.pre, %cond.end ], [ %0, %entry ]
  %count2.i = getelementptr inbounds i8, ptr %2, i64 8
  %3 = load i64, ptr %count2.i, align 8
  %abort.i = getelementptr inbounds i8, ptr %2, i64 36
  %.i = getelementptr inbounds i8, ptr %2, i64 144
  %first_return.i.i = getelementptr inbounds i8, ptr %2, i64 152
  %contended.i = getelementptr inbounds i8, ptr %2, i64 160
  %batch.i = getelementptr inbounds i8, ptr %2, i64 56
  br label %while.cond.i

while.cond.i:
  %4 = load atomic i32, ptr %abort.i monotonic, align 4
  %tobool.not.i = icmp eq i32 %4, 0
  br i1 %tobool.not.i, label %while.body.i, label %while.end

while.body.i:
  %5 = load i64, ptr %next.i, align 8
  %6 = load i64, ptr %end.i, align 8
  %cmp.i = icmp slt i64 %5, %6
  br i1 %cmp.i, label %take_position.exit, label %if.end.i

if.end.i:
  %7 = load atomic i64, ptr %.i seq_cst, align 8
  %cmp6.i = icmp sgt i64 %7, 0
  br i1 %cmp6.i, label %if.then7.i, label %if.end11.i

if.then7.i:
  %8 = load atomic i64, ptr %first_return.i.i seq_cst, align 8
  %9 = inttoptr i64 %8 to ptr
  br label %for.cond.i.i

for.cond.i.i:
  %giver.0.i.i = phi ptr [ %9, %if.then7.i ], [ %12, %for.inc.i.i ]
  %tobool.not.i.i = icmp eq ptr %giver.0.i.i, null
  br i1 %tobool.not.i.i, label %if.end11.i, label %for.body.i.i

for.body.i.i:
  %_next.i.i = getelementptr inbounds i8, ptr %giver.0.i.i, i64 232
  %10 = atomicrmw add ptr %_next.i.i, i64 1 seq_cst, align 8
  %_end.i.i = getelementptr inbounds i8, ptr %giver.0.i.i, i64 240
  %11 = load i64, ptr %_end.i.i, align 8
  %cmp.not.i.i = icmp slt i64 %10, %11
  br i1 %cmp.not.i.i, label %take_returned.exit.i, label %for.inc.i.i

for.inc.i.i:
  %_link.i.i = getelementptr inbounds i8, ptr %giver.0.i.i, i64 248
  %12 = load ptr, ptr %_link.i.i, align 8
  br label %for.cond.i.i

take_returned.exit.i:
  %13 = atomicrmw sub ptr %.i, i64 1 seq_cst, align 8
  %cmp8.i = icmp slt i64 %10, 0
  br i1 %cmp8.i, label %if.end11.i, label %while.body

if.end11.i:
  %14 = load atomic i64, ptr %contended.i seq_cst, align 8
  %tobool13.not.i = icmp eq i64 %14, 0
  br i1 %tobool13.not.i, label %cond.false.i, label %cond.end.i

cond.false.i:
  %15 = load i64, ptr %batch.i, align 8
  br label %cond.end.i

cond.end.i:
  %cond.i = phi i64 [ %15, %cond.false.i ], [ 1, %if.end11.i ]
  %16 = atomicrmw add ptr %2, i64 %cond.i seq_cst, align 8
  %add.i = add i64 %16, %cond.i
  %cond.i.i = call i64 @llvm.umin.i64(i64 %add.i, i64 %3)
  store i64 %cond.i.i, ptr %end.i, align 8
  %cmp21.i = icmp slt i64 %16, %3
  br i1 %cmp21.i, label %take_position.exit, label %if.end25.i

if.end25.i:
  store i64 %3, ptr %next.i, align 8
  %17 = load atomic i64, ptr %.i seq_cst, align 8
  %cmp29.i = icmp slt i64 %17, 1
  br i1 %cmp29.i, label %while.end, label %while.cond.i

take_position.exit:
  %.lcssa79.sink.i = phi i64 [ %5, %while.body.i ], [ %16, %cond.end.i ]
  %add23.i = add nsw i64 %.lcssa79.sink.i, 1
  store i64 %add23.i, ptr %next.i, align 8
  %cmp = icmp sgt i64 %.lcssa79.sink.i, -1
  br i1 %cmp, label %while.body, label %while.end

while.body:
  %retval.4.i32 = phi i64 [ %.lcssa79.sink.i, %take_position.exit ], [ %10, %take_returned.exit.i ]
  br i1 %tobool.not, label %cond.end, label %cond.true

cond.true:
  %arrayidx = getelementptr i64, ptr %1, i64 %retval.4.i32
  %18 = load i64, ptr %arrayidx, align 8
  br label %cond.end

cond.end:
  %cond = phi i64 [ %18, %cond.true ], [ %retval.4.i32, %while.body ]
  store atomic i64 %retval.4.i32, ptr %position2 seq_cst, align 8
  store atomic i64 %cond, ptr %program seq_cst, align 8
  store i64 %cond, ptr %runner, align 8
  %add = add i64 %cond, 1
  store i64 %add, ptr %count, align 8
  %19 = load ptr, ptr %entry5, align 8
  call void %19(ptr %runner, ptr %arena)
  store atomic i64 -1, ptr %site seq_cst, align 8
  store atomic i64 0, ptr %calls seq_cst, align 8
  store atomic i64 -1, ptr %program seq_cst, align 8
  %20 = atomicrmw add ptr %finished, i64 1 seq_cst, align 8
  %.pre = load ptr, ptr %shared, align 8
  br label %while.cond

while.end:
  ret void
}

define i32 @callback(ptr %runner, i64 %program, i32 %kind, i32 %site, ptr %payload) {
entry:
  %time.i = alloca [2 x i64], align 16
  %cmp.not = icmp eq i32 %kind, 3
  br i1 %cmp.not, label %if.end, label %if.then

if.then:
  %call = call fastcc i64 @nanoseconds(i32 3)
  %callback = getelementptr inbounds i8, ptr %runner, i64 200
  %0 = load ptr, ptr %callback, align 8
  %shared = getelementptr inbounds i8, ptr %runner, i64 128
  %1 = load ptr, ptr %shared, align 8
  %call1 = call i32 %0(ptr %1, i64 %program, i32 %kind, i32 %site, ptr %payload)
  %call2 = call fastcc i64 @nanoseconds(i32 3)
  %sub = sub i64 %call2, %call
  %cpu = getelementptr inbounds i8, ptr %runner, i64 208
  %2 = load i64, ptr %cpu, align 8
  %add = add i64 %sub, %2
  store i64 %add, ptr %cpu, align 8
  br label %return

if.end:
  %shared1.i = getelementptr inbounds i8, ptr %runner, i64 128
  %3 = load ptr, ptr %shared1.i, align 8
  %contended.i = getelementptr inbounds i8, ptr %3, i64 160
  store atomic i64 1, ptr %contended.i seq_cst, align 8
  %next2.i = getelementptr inbounds i8, ptr %runner, i64 216
  %4 = load i64, ptr %next2.i, align 8
  %end3.i = getelementptr inbounds i8, ptr %runner, i64 224
  %5 = load i64, ptr %end3.i, align 8
  %cmp.not.i = icmp slt i64 %4, %5
  br i1 %cmp.not.i, label %if.end.i, label %hand_back.exit

if.end.i:
  store i64 %5, ptr %next2.i, align 8
  %_next.i = getelementptr inbounds i8, ptr %runner, i64 232
  store i64 %4, ptr %_next.i, align 8
  %_end.i = getelementptr inbounds i8, ptr %runner, i64 240
  store i64 %5, ptr %_end.i, align 8
  %first_return.i = getelementptr inbounds i8, ptr %3, i64 152
  %6 = load atomic i64, ptr %first_return.i seq_cst, align 8
  %_link.i = getelementptr inbounds i8, ptr %runner, i64 248
  %7 = ptrtoint ptr %runner to i64
  br label %do.body.i

do.body.i:
  %first.0.in.i = phi i64 [ %6, %if.end.i ], [ %10, %do.body.i ]
  %first.0.i = inttoptr i64 %first.0.in.i to ptr
  store ptr %first.0.i, ptr %_link.i, align 8
  %8 = cmpxchg ptr %first_return.i, i64 %first.0.in.i, i64 %7 seq_cst seq_cst, align 8
  %9 = extractvalue { i64, i1 } %8, 1
  %10 = extractvalue { i64, i1 } %8, 0
  br i1 %9, label %do.end.i, label %do.body.i

do.end.i:
  %.i = getelementptr inbounds i8, ptr %3, i64 144
  %sub.i = sub i64 %5, %4
  %11 = atomicrmw add ptr %.i, i64 %sub.i seq_cst, align 8
  br label %hand_back.exit

hand_back.exit:
  %12 = ptrtoint ptr %payload to i64
  %iterations4 = getelementptr inbounds i8, ptr %runner, i64 192
  %13 = load i64, ptr %iterations4, align 8
  store i64 %12, ptr %iterations4, align 8
  %site6 = getelementptr inbounds i8, ptr %runner, i64 184
  %14 = load i64, ptr %site6, align 8
  %conv = zext i32 %site to i64
  %cmp7 = icmp ne i64 %14, %conv
  %cmp9 = icmp ne ptr %payload, null
  %cmp11 = icmp uge i64 %13, %12
  %15 = select i1 %cmp9, i1 %cmp11, i1 false
  %call13 = call fastcc i64 @nanoseconds(i32 3)
  %cpu14 = getelementptr inbounds i8, ptr %runner, i64 208
  %16 = load i64, ptr %cpu14, align 8
  %sub15 = sub i64 %call13, %16
  %cmp16 = icmp ugt i64 %sub15, 500000
  %or.cond = select i1 %cmp7, i1 true, i1 %15
  %or.cond33 = select i1 %or.cond, i1 true, i1 %cmp16
  br i1 %or.cond33, label %if.then21, label %if.end26

if.then21:
  %calls = getelementptr inbounds i8, ptr %runner, i64 160
  store atomic i64 0, ptr %calls seq_cst, align 8
  store atomic i64 %conv, ptr %site6 seq_cst, align 8
  %instance = getelementptr inbounds i8, ptr %runner, i64 168
  %17 = atomicrmw add ptr %instance, i64 1 seq_cst, align 8
  br label %if.end26

if.end26:
  %calls27 = getelementptr inbounds i8, ptr %runner, i64 160
  %18 = atomicrmw add ptr %calls27, i64 1 seq_cst, align 8
  %cmp.i = icmp ult i64 %18, 4
  br i1 %cmp.i, label %if.then.i, label %if.else.i

if.then.i:
  call void @pause_processor()
  br label %back_off.exit

if.else.i:
  %cmp1.i = icmp ult i64 %18, 24
  br i1 %cmp1.i, label %if.then2.i, label %if.else3.i

if.then2.i:
  %call.i = call i32 @sched_yield()
  br label %back_off.exit

if.else3.i:
  %19 = load ptr, ptr %shared1.i, align 8
  %longest_sleep.i = getelementptr inbounds i8, ptr %19, i64 136
  %20 = load atomic i64, ptr %longest_sleep.i monotonic, align 8
  %sub.i54 = add i64 %18, -24
  %shr.i = lshr i64 %sub.i54, 3
  %cond.i10.i = call i64 @llvm.umin.i64(i64 %shr.i, i64 10)
  %shl.i = shl nuw nsw i64 50000, %cond.i10.i
  store i64 0, ptr %time.i, align 16
  %arrayinit.element.i = getelementptr inbounds i8, ptr %time.i, i64 8
  %cond.i.i = call i64 @llvm.umin.i64(i64 %shl.i, i64 %20)
  store i64 %cond.i.i, ptr %arrayinit.element.i, align 8
  %call6.i = call i32 @nanosleep(ptr %time.i, ptr null)
  br label %back_off.exit

back_off.exit:
  %call30 = call fastcc i64 @nanoseconds(i32 3)
  store i64 %call30, ptr %cpu14, align 8
  %abort = getelementptr inbounds i8, ptr %runner, i64 36
  %21 = load atomic i32, ptr %abort monotonic, align 4
  br label %return

return:
  %retval.0 = phi i32 [ %call1, %if.then ], [ %21, %back_off.exit ]
  ret i32 %retval.0
}

define ptr @crash_note() {
entry:
  ret ptr @crash_report
}

define void @crashed(i32 %number) {
entry:
  %call = call fastcc i32 @compiles()
  %tobool.not = icmp eq i32 %call, 0
  br i1 %tobool.not, label %if.else, label %if.then

if.then:
  %0 = load ptr, ptr getelementptr inbounds (i8, ptr @crash_report, i64 24), align 8
  call fastcc void @say(ptr %0)
  br label %if.end5

if.else:
  %1 = atomicrmw xchg ptr @crash_reported, i32 1 seq_cst, align 4
  %tobool1.not = icmp eq i32 %1, 0
  br i1 %tobool1.not, label %if.else4, label %if.then2

if.then2:
  %call3 = call i32 @poll(ptr null, i64 0, i32 1000)
  br label %if.end5

if.else4:
  %2 = load ptr, ptr @crash_report, align 8
  call fastcc void @say(ptr %2)
  %3 = load ptr, ptr getelementptr inbounds (i8, ptr @crash_report, i64 8), align 8
  call fastcc void @say(ptr %3)
  %4 = load ptr, ptr getelementptr inbounds (i8, ptr @crash_report, i64 16), align 8
  call fastcc void @say(ptr %4)
  br label %if.end5

if.end5:
  %5 = load ptr, ptr getelementptr inbounds (i8, ptr @crash_report, i64 40), align 8
  call fastcc void @hand_on(ptr %5, i32 %number)
  store atomic i32 0, ptr @crash_reported seq_cst, align 4
  ret void
}

define internal fastcc i32 @compiles() {
entry:
  %0 = load ptr, ptr getelementptr inbounds (i8, ptr @crash_report, i64 24), align 8
  %tobool.not = icmp eq ptr %0, null
  br i1 %tobool.not, label %land.end, label %land.rhs

land.rhs:
  %1 = load i64, ptr getelementptr inbounds (i8, ptr @crash_report, i64 32), align 8
  %call = call i64 @pthread_self()
  %cmp = icmp eq i64 %1, %call
  %2 = zext i1 %cmp to i32
  br label %land.end

land.end:
  %land.ext = phi i32 [ 0, %entry ], [ %2, %land.rhs ]
  ret i32 %land.ext
}

define internal fastcc void @say(ptr %text) {
entry:
  %tobool.not = icmp eq ptr %text, null
  br i1 %tobool.not, label %if.end, label %if.then

if.then:
  %call = call i64 @strlen(ptr %text)
  %call1 = call i64 @write(i32 2, ptr %text, i64 %call)
  br label %if.end

if.end:
  ret void
}

declare i32 @poll(ptr, i64, i32)

define internal fastcc void @hand_on(ptr %before, i32 %number) {
entry:
  %idxprom = zext i32 %number to i64
  %arrayidx = getelementptr %struct.signal_action, ptr %before, i64 %idxprom
  %call = call i32 @sigaction(i32 %number, ptr %arrayidx, ptr null)
  %call1 = call i32 @raise(i32 %number)
  ret void
}

define void @exited() {
entry:
  %call = call fastcc i32 @compiles()
  %tobool.not = icmp eq i32 %call, 0
  br i1 %tobool.not, label %if.end, label %if.then

if.then:
  %0 = load ptr, ptr getelementptr inbounds (i8, ptr @crash_report, i64 24), align 8
  call fastcc void @say(ptr %0)
  br label %if.end

if.end:
  ret void
}

define ptr @signal_target() {
entry:
  ret ptr @target
}

define void @signalled(i32 %number, ptr %information, ptr %context) {
entry:
  %byte = alloca i8, align 1
  %call = call ptr @__errno_location()
  %0 = load i32, ptr %call, align 4
  %cmp = icmp eq i32 %number, 2
  %1 = load i32, ptr getelementptr inbounds (i8, ptr @target, i64 4), align 4
  %call1 = call i32 @getpid()
  %cmp2 = icmp eq i32 %1, %call1
  br i1 %cmp2, label %land.end, label %if.end.thread

land.end:
  %2 = load i32, ptr getelementptr inbounds (i8, ptr @target, i64 8), align 8
  %tobool4 = icmp ne i32 %2, 0
  %3 = select i1 %cmp, i1 true, i1 %tobool4
  br i1 %3, label %if.end, label %if.end11.thread

if.end:
  %4 = atomicrmw add ptr getelementptr inbounds (i8, ptr @target, i64 12), i32 1 seq_cst, align 4
  br i1 %cmp, label %if.end11, label %if.then13

if.end.thread:
  br i1 %cmp, label %if.end11, label %if.end11.thread

if.end11.thread:
  %5 = load ptr, ptr getelementptr inbounds (i8, ptr @target, i64 16), align 8
  call fastcc void @hand_on(ptr %5, i32 %number)
  br label %if.end16

if.end11:
  %6 = load ptr, ptr getelementptr inbounds (i8, ptr @target, i64 24), align 8
  call void %6()
  br i1 %cmp2, label %if.then13, label %if.end16

if.then13:
  %conv14 = trunc i32 %number to i8
  store i8 %conv14, ptr %byte, align 1
  %7 = load i32, ptr @target, align 8
  %call15 = call i64 @write(i32 %7, ptr %byte, i64 1)
  br label %if.end16

if.end16:
  store i32 %0, ptr %call, align 4
  ret void
}

declare ptr @__errno_location()

declare i32 @getpid()

declare i64 @write(i32, ptr, i64)

define i32 @answered(ptr %asked) {
entry:
  store atomic i32 0, ptr %asked seq_cst, align 4
  ret i32 0
}

define void @note_stop(ptr %launch, i64 %program, i64 %site) {
entry:
  %stopped = getelementptr inbounds i8, ptr %launch, i64 72
  %0 = atomicrmw xchg ptr %stopped, i64 1 seq_cst, align 8
  %tobool.not = icmp eq i64 %0, 0
  br i1 %tobool.not, label %if.end, label %return

if.end:
  %stopped_program = getelementptr inbounds i8, ptr %launch, i64 80
  store i64 %program, ptr %stopped_program, align 8
  %stopped_site = getelementptr inbounds i8, ptr %launch, i64 88
  store i64 %site, ptr %stopped_site, align 8
  br label %return

return:
  ret void
}

declare i32 @clock_gettime(i32, ptr)

declare i32 @sched_yield()

declare i32 @nanosleep(ptr, ptr)

declare i64 @pthread_self()

declare i64 @strlen(ptr)

declare i32 @sigaction(i32, ptr, ptr)

declare i32 @raise(i32)

declare i64 @llvm.umin.i64(i64, i64)

declare i64 @llvm.smax.i64(i64, i64)
