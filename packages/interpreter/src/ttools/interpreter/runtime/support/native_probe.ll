; Made of native_probe.c by `python -m tools.native_code`; change that file.
; 2fadf4538e6d35c8
%struct.site = type { i32, i32, i32, i32, ptr, i64, i64 }
%struct.region = type { i64, i64, i64, i64, i64, i64, ptr, i64 }
%struct.open_record = type { %struct.record, i64, i64, [4 x i64], i64, %struct.record, i64, i64, i64 }
%struct.record = type { i64, i64, i64, i64, i32, i32, i64 }
%struct.anon.1 = type { i64, i64 }
%struct.allocation = type { i64, i64 }
%struct.counter = type { i64, i64, i64 }
%struct.synchronisation = type { i64, i64, i64, i64, i32, i32, i32, i32 }

define i64 @check_lanes(ptr %probe, i32 %site, ptr %payload, i64 %active) {
entry:
  %question = alloca [4 x i64], align 16
  %0 = load ptr, ptr %probe, align 8
  %sites = getelementptr inbounds i8, ptr %0, i64 88
  %1 = load ptr, ptr %sites, align 8
  %idxprom = sext i32 %site to i64
  %arrayidx = getelementptr %struct.site, ptr %1, i64 %idxprom
  %regions = getelementptr inbounds i8, ptr %0, i64 104
  %2 = load ptr, ptr %regions, align 8
  %region2 = getelementptr inbounds i8, ptr %arrayidx, i64 8
  %3 = load i32, ptr %region2, align 8
  %idxprom3 = sext i32 %3 to i64
  %arrayidx4 = getelementptr %struct.region, ptr %2, i64 %idxprom3
  %open5 = getelementptr inbounds i8, ptr %probe, i64 12352
  %arrayidx7 = getelementptr [1 x %struct.open_record], ptr %open5, i64 0, i64 %idxprom
  %4 = load i32, ptr %arrayidx, align 8
  %conv = zext i32 %4 to i64
  %lanes = getelementptr inbounds i8, ptr %arrayidx, i64 4
  %addresses = getelementptr inbounds i8, ptr %payload, i64 40
  %sub = add nsw i64 %conv, -1
  %allocations = getelementptr inbounds i8, ptr %0, i64 120
  %allocation_count = getelementptr inbounds i8, ptr %0, i64 112
  %arrayinit.element = getelementptr inbounds i8, ptr %question, i64 8
  %arrayinit.element64 = getelementptr inbounds i8, ptr %question, i64 16
  %arrayinit.element65 = getelementptr inbounds i8, ptr %question, i64 24
  %finds = getelementptr inbounds i8, ptr %0, i64 192
  %cache_base = getelementptr inbounds i8, ptr %arrayidx7, i64 48
  %cache_bytes = getelementptr inbounds i8, ptr %arrayidx7, i64 56
  %end = getelementptr inbounds i8, ptr %arrayidx4, i64 8
  %view_matters = getelementptr inbounds i8, ptr %arrayidx4, i64 56
  %view_end = getelementptr inbounds i8, ptr %arrayidx4, i64 40
  %view_begin = getelementptr inbounds i8, ptr %arrayidx4, i64 32
  %dimensions = getelementptr inbounds i8, ptr %arrayidx4, i64 48
  br label %for.cond

for.cond:
  %indvars.iv = phi i64 [ %indvars.iv.next, %cleanup86 ], [ 0, %entry ]
  %allowed.0 = phi i64 [ %allowed.3, %cleanup86 ], [ 0, %entry ]
  %misaligned.0 = phi i64 [ %misaligned.2, %cleanup86 ], [ 0, %entry ]
  %beside.0 = phi i64 [ %beside.3, %cleanup86 ], [ 0, %entry ]
  %outside.0 = phi i64 [ %outside.5, %cleanup86 ], [ 0, %entry ]
  %5 = load i32, ptr %lanes, align 4
  %6 = zext i32 %5 to i64
  %cmp = icmp ult i64 %indvars.iv, %6
  br i1 %cmp, label %for.body, label %for.cond.cleanup

for.cond.cleanup:
  store i64 %outside.0, ptr %payload, align 8
  %arrayidx95 = getelementptr i8, ptr %payload, i64 8
  store i64 %beside.0, ptr %arrayidx95, align 8
  %arrayidx97 = getelementptr i8, ptr %payload, i64 16
  store i64 %misaligned.0, ptr %arrayidx97, align 8
  %arrayidx99 = getelementptr i8, ptr %payload, i64 24
  store i64 0, ptr %arrayidx99, align 8
  %active100 = getelementptr inbounds i8, ptr %payload, i64 32
  store i64 %active, ptr %active100, align 8
  ret i64 %allowed.0

for.body:
  %shl = shl nuw i64 1, %indvars.iv
  %and = and i64 %shl, %active
  %tobool.not = icmp eq i64 %and, 0
  br i1 %tobool.not, label %cleanup86, label %if.end

if.end:
  %arrayidx11 = getelementptr [1 x i64], ptr %addresses, i64 0, i64 %indvars.iv
  %7 = load i64, ptr %arrayidx11, align 8
  %and12 = and i64 %7, %sub
  %tobool13.not = icmp eq i64 %and12, 0
  br i1 %tobool13.not, label %if.end15, label %if.then14

if.then14:
  %or = or i64 %misaligned.0, %shl
  br label %cleanup86

if.end15:
  %8 = load i32, ptr %region2, align 8
  %cmp17 = icmp sgt i32 %8, -1
  br i1 %cmp17, label %if.then19, label %for.cond46.preheader

for.cond46.preheader:
  %9 = load i64, ptr %allocation_count, align 8
  br label %for.cond46

if.then19:
  %10 = load i64, ptr %arrayidx4, align 8
  %11 = load i64, ptr %end, align 8
  %sub21 = sub i64 %11, %10
  %cond.i182 = call i64 @llvm.usub.sat.i64(i64 %sub21, i64 %sub)
  %sub3.i183 = sub i64 %7, %10
  %cmp4.i184.not = icmp ult i64 %sub3.i183, %cond.i182
  br i1 %cmp4.i184.not, label %if.end25, label %if.then23

if.then23:
  %or24 = or i64 %outside.0, %shl
  br label %cleanup86

if.end25:
  %or26 = or i64 %shl, %allowed.0
  %12 = load i64, ptr %view_matters, align 8
  %tobool27.not = icmp eq i64 %12, 0
  br i1 %tobool27.not, label %cleanup86, label %if.end29

if.end29:
  %13 = load i64, ptr %view_end, align 8
  %14 = load i64, ptr %view_begin, align 8
  %sub30 = sub i64 %13, %14
  %cond.i177 = call i64 @llvm.usub.sat.i64(i64 %sub30, i64 %sub)
  %sub3.i178 = sub i64 %7, %14
  %cmp4.i179.not = icmp ult i64 %sub3.i178, %cond.i177
  br i1 %cmp4.i179.not, label %lor.lhs.false, label %if.then40

lor.lhs.false:
  %15 = load ptr, ptr %dimensions, align 8
  %tobool34.not = icmp eq ptr %15, null
  br i1 %tobool34.not, label %cleanup86, label %land.lhs.true

land.lhs.true:
  %16 = load i64, ptr %15, align 8
  %cmp.i = icmp slt i64 %16, 0
  %17 = getelementptr inbounds i8, ptr %15, i64 16
  br i1 %cmp.i, label %if.then.i, label %for.cond.i

if.then.i:
  %18 = load ptr, ptr %17, align 8
  %item.i = getelementptr inbounds i8, ptr %15, i64 8
  %19 = load i64, ptr %item.i, align 8
  %div.i = udiv i64 %sub3.i178, %19
  %arrayidx.i = getelementptr i8, ptr %18, i64 %div.i
  %20 = load i8, ptr %arrayidx.i, align 1
  %cmp1.i.not = icmp eq i8 %20, 0
  br i1 %cmp1.i.not, label %if.then40, label %cleanup86

for.cond.i:
  %offset.addr.0.i = phi i64 [ %sub.i186, %for.body.i ], [ %sub3.i178, %land.lhs.true ]
  %n.0.i = phi i64 [ %inc.i, %for.body.i ], [ 0, %land.lhs.true ]
  %exitcond.not.i = icmp eq i64 %n.0.i, %16
  br i1 %exitcond.not.i, label %is_member.exit, label %for.body.i

for.body.i:
  %arrayidx6.i = getelementptr [1 x %struct.anon.1], ptr %17, i64 0, i64 %n.0.i
  %21 = load i64, ptr %arrayidx6.i, align 8
  %div8.i = udiv i64 %offset.addr.0.i, %21
  %last.i = getelementptr inbounds i8, ptr %arrayidx6.i, i64 8
  %22 = load i64, ptr %last.i, align 8
  %cond.i.i = call i64 @llvm.umin.i64(i64 %div8.i, i64 %22)
  %mul.i = mul i64 %cond.i.i, %21
  %sub.i186 = sub i64 %offset.addr.0.i, %mul.i
  %inc.i = add nuw i64 %n.0.i, 1
  br label %for.cond.i

is_member.exit:
  %item10.i = getelementptr inbounds i8, ptr %15, i64 8
  %23 = load i64, ptr %item10.i, align 8
  %cmp11.i = icmp ult i64 %offset.addr.0.i, %23
  br i1 %cmp11.i, label %cleanup86, label %if.then40

if.then40:
  %or41 = or i64 %beside.0, %shl
  br label %cleanup86

for.cond46:
  %k.0 = phi i64 [ %inc, %for.inc ], [ 0, %for.cond46.preheader ]
  %exitcond.not = icmp eq i64 %k.0, %9
  br i1 %exitcond.not, label %if.then63, label %for.body49

for.body49:
  %24 = load ptr, ptr %allocations, align 8
  %arrayidx50 = getelementptr %struct.allocation, ptr %24, i64 %k.0
  %25 = load i64, ptr %arrayidx50, align 8
  %end54 = getelementptr inbounds i8, ptr %arrayidx50, i64 8
  %26 = load i64, ptr %end54, align 8
  %sub55 = sub i64 %26, %25
  %cond.i = call i64 @llvm.usub.sat.i64(i64 %sub55, i64 %sub)
  %sub3.i = sub i64 %7, %25
  %cmp4.i.not = icmp ult i64 %sub3.i, %cond.i
  br i1 %cmp4.i.not, label %for.end, label %for.inc

for.inc:
  %inc = add i64 %k.0, 1
  br label %for.cond46

for.end:
  %cmp61 = icmp eq i64 %k.0, %9
  br i1 %cmp61, label %if.then63, label %if.end76

if.then63:
  store i64 %7, ptr %question, align 16
  store i64 %conv, ptr %arrayinit.element, align 8
  store i64 0, ptr %arrayinit.element64, align 16
  store i64 0, ptr %arrayinit.element65, align 8
  %27 = load i64, ptr %finds, align 8
  %tobool66.not = icmp eq i64 %27, 0
  br i1 %tobool66.not, label %cleanup, label %lor.lhs.false67

lor.lhs.false67:
  %call68 = call fastcc i32 @call_back(ptr %probe, i32 11, i32 %site, ptr %question)
  %tobool69.not = icmp eq i32 %call68, 0
  br i1 %tobool69.not, label %cleanup.thread, label %cleanup

cleanup.thread:
  %28 = load i64, ptr %arrayinit.element64, align 16
  %29 = load i64, ptr %arrayinit.element65, align 8
  %sub75 = sub i64 %29, %28
  br label %if.end76

cleanup:
  %or71 = or i64 %outside.0, %shl
  br label %cleanup86

if.end76:
  %begin44.3 = phi i64 [ %25, %for.end ], [ %28, %cleanup.thread ]
  %span45.3 = phi i64 [ %sub55, %for.end ], [ %sub75, %cleanup.thread ]
  %sub77 = sub i64 0, %begin44.3
  %rem = and i64 %sub77, 7
  %add = add i64 %rem, %begin44.3
  store i64 %add, ptr %cache_base, align 8
  %cond = call i64 @llvm.usub.sat.i64(i64 %span45.3, i64 %rem)
  store i64 %cond, ptr %cache_bytes, align 8
  %or81 = or i64 %shl, %allowed.0
  br label %cleanup86

cleanup86:
  %allowed.3 = phi i64 [ %allowed.0, %for.body ], [ %allowed.0, %if.then14 ], [ %allowed.0, %if.then23 ], [ %or26, %if.end25 ], [ %or26, %if.then40 ], [ %or26, %is_member.exit ], [ %or26, %lor.lhs.false ], [ %or81, %if.end76 ], [ %allowed.0, %cleanup ], [ %or26, %if.then.i ]
  %misaligned.2 = phi i64 [ %misaligned.0, %for.body ], [ %or, %if.then14 ], [ %misaligned.0, %if.then23 ], [ %misaligned.0, %if.end25 ], [ %misaligned.0, %if.then40 ], [ %misaligned.0, %is_member.exit ], [ %misaligned.0, %lor.lhs.false ], [ %misaligned.0, %if.end76 ], [ %misaligned.0, %cleanup ], [ %misaligned.0, %if.then.i ]
  %beside.3 = phi i64 [ %beside.0, %for.body ], [ %beside.0, %if.then14 ], [ %beside.0, %if.then23 ], [ %beside.0, %if.end25 ], [ %or41, %if.then40 ], [ %beside.0, %is_member.exit ], [ %beside.0, %lor.lhs.false ], [ %beside.0, %if.end76 ], [ %beside.0, %cleanup ], [ %beside.0, %if.then.i ]
  %outside.5 = phi i64 [ %outside.0, %for.body ], [ %outside.0, %if.then14 ], [ %or24, %if.then23 ], [ %outside.0, %if.end25 ], [ %outside.0, %if.then40 ], [ %outside.0, %is_member.exit ], [ %outside.0, %lor.lhs.false ], [ %outside.0, %if.end76 ], [ %or71, %cleanup ], [ %outside.0, %if.then.i ]
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  br label %for.cond
}

define internal fastcc i32 @call_back(ptr %probe, i32 %kind, i32 %site, ptr %payload) noinline {
entry:
  %launch = getelementptr inbounds i8, ptr %probe, i64 32
  %0 = load ptr, ptr %launch, align 8
  %callback = getelementptr inbounds i8, ptr %0, i64 48
  %1 = load ptr, ptr %callback, align 8
  %program = getelementptr inbounds i8, ptr %probe, i64 24
  %2 = load i64, ptr %program, align 8
  %call = call i32 %1(ptr %0, i64 %2, i32 %kind, i32 %site, ptr %payload)
  ret i32 %call
}

define void @report(ptr %probe, i32 %site, ptr %payload) {
entry:
  %0 = load ptr, ptr %probe, align 8
  %sites = getelementptr inbounds i8, ptr %0, i64 88
  %1 = load ptr, ptr %sites, align 8
  %idxprom = sext i32 %site to i64
  %leader2 = getelementptr %struct.site, ptr %1, i64 %idxprom, i32 3
  %2 = load i32, ptr %leader2, align 4
  %open3 = getelementptr inbounds i8, ptr %probe, i64 12352
  %idxprom4 = sext i32 %2 to i64
  %counters = getelementptr inbounds i8, ptr %0, i64 128
  %program = getelementptr inbounds i8, ptr %probe, i64 24
  br label %for.cond

for.cond:
  %indvars.iv = phi i64 [ %indvars.iv.next, %cleanup ], [ 0, %entry ]
  %news.0 = phi i32 [ %news.1, %cleanup ], [ 0, %entry ]
  %exitcond.not = icmp eq i64 %indvars.iv, 4
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body

for.cond.cleanup:
  %tobool33.not = icmp eq i32 %news.0, 0
  br i1 %tobool33.not, label %if.end35, label %if.then34

for.body:
  %arrayidx8 = getelementptr [4 x i64], ptr %payload, i64 0, i64 %indvars.iv
  %3 = load i64, ptr %arrayidx8, align 8
  %tobool.not = icmp eq i64 %3, 0
  br i1 %tobool.not, label %cleanup, label %if.end

if.end:
  %4 = load ptr, ptr %counters, align 8
  %arrayidx12 = getelementptr [4 x %struct.counter], ptr %4, i64 %idxprom4, i64 %indvars.iv
  %5 = call i64 @llvm.ctpop.i64(i64 %3)
  %6 = atomicrmw add ptr %arrayidx12, i64 %5 monotonic, align 8
  %lowest_program = getelementptr inbounds i8, ptr %arrayidx12, i64 8
  %7 = load i64, ptr %program, align 8
  %8 = atomicrmw umin ptr %lowest_program, i64 %7 monotonic, align 8
  %arrayidx16 = getelementptr [1 x %struct.open_record], ptr %open3, i64 0, i64 %idxprom4, i32 3, i64 %indvars.iv
  %9 = load i64, ptr %arrayidx16, align 8
  %10 = load i64, ptr %program, align 8
  %add = add i64 %10, 1
  %cmp18.not = icmp eq i64 %9, %add
  br i1 %cmp18.not, label %if.end28, label %if.then20

if.then20:
  store i64 %add, ptr %arrayidx16, align 8
  %programs = getelementptr inbounds i8, ptr %arrayidx12, i64 16
  %11 = atomicrmw add ptr %programs, i64 1 monotonic, align 8
  %.pre = load i64, ptr %program, align 8
  br label %if.end28

if.end28:
  %12 = phi i64 [ %.pre, %if.then20 ], [ %10, %if.end ]
  %cmp30 = icmp ult i64 %12, %8
  %conv31 = zext i1 %cmp30 to i32
  %or = or i32 %news.0, %conv31
  br label %cleanup

cleanup:
  %news.1 = phi i32 [ %or, %if.end28 ], [ %news.0, %for.body ]
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  br label %for.cond

if.then34:
  %call = call fastcc i32 @call_back(ptr %probe, i32 5, i32 %site, ptr %payload)
  br label %if.end35

if.end35:
  ret void
}

declare i64 @llvm.ctpop.i64(i64)

define void @finish(ptr %probe) {
entry:
  %0 = load ptr, ptr %probe, align 8
  %logged = getelementptr inbounds i8, ptr %probe, i64 8
  %1 = load i64, ptr %logged, align 8
  %tobool.not = icmp eq i64 %1, 0
  br i1 %tobool.not, label %cleanup, label %if.end

if.end:
  %log_mutex = getelementptr inbounds i8, ptr %0, i64 152
  call fastcc void @acquire(ptr %log_mutex)
  %log_used = getelementptr inbounds i8, ptr %0, i64 160
  %2 = load i64, ptr %log_used, align 8
  %add = add i64 %2, %1
  %cmp = icmp ugt i64 %add, 16384
  br i1 %cmp, label %if.then2, label %if.end3

if.then2:
  %call = call fastcc i32 @call_back(ptr %probe, i32 6, i32 0, ptr %0)
  br label %if.end3

if.end3:
  %used.0 = phi i64 [ 0, %if.then2 ], [ %2, %if.end ]
  %add4 = add i64 %used.0, %1
  store i64 %add4, ptr %log_used, align 8
  %log = getelementptr inbounds i8, ptr %0, i64 168
  %3 = load ptr, ptr %log, align 8
  %arrayidx = getelementptr %struct.record, ptr %3, i64 %used.0
  %log6 = getelementptr inbounds i8, ptr %probe, i64 64
  %mul = mul i64 %1, 48
  call void @llvm.memcpy.p0.p0.i64(ptr %arrayidx, ptr %log6, i64 %mul, i1 false)
  store atomic i32 0, ptr %log_mutex release, align 4
  store i64 0, ptr %logged, align 8
  br label %cleanup

cleanup:
  ret void
}

define internal fastcc void @acquire(ptr %mutex) {
entry:
  br label %while.cond

while.cond:
  %0 = cmpxchg ptr %mutex, i32 0, i32 1 acquire monotonic, align 4
  %1 = extractvalue { i32, i1 } %0, 1
  br i1 %1, label %while.end, label %while.body

while.body:
  %call = call i32 @sched_yield()
  br label %while.cond

while.end:
  ret void
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @footprint(ptr %probe, i32 %site, i64 %start, i64 %bytes, i32 %lane) {
entry:
  %0 = load ptr, ptr %probe, align 8
  %sites = getelementptr inbounds i8, ptr %0, i64 88
  %1 = load ptr, ptr %sites, align 8
  %idxprom = sext i32 %site to i64
  %arrayidx = getelementptr %struct.site, ptr %1, i64 %idxprom
  %conv.i = zext i32 %lane to i64
  %2 = load i32, ptr %arrayidx, align 8
  %conv1.i = zext i32 %2 to i64
  %mul.i = mul nuw i64 %conv1.i, %conv.i
  %sub.i = sub i64 %start, %mul.i
  %period.i = getelementptr inbounds i8, ptr %arrayidx, i64 24
  %3 = load i64, ptr %period.i, align 8
  %and.i = and i64 %sub.i, %3
  %open2 = getelementptr inbounds i8, ptr %probe, i64 12352
  %arrayidx4 = getelementptr [1 x %struct.open_record], ptr %open2, i64 0, i64 %idxprom
  %end = getelementptr inbounds i8, ptr %arrayidx4, i64 8
  %4 = load i64, ptr %end, align 8
  %cmp = icmp eq i64 %4, %start
  br i1 %cmp, label %land.lhs.true, label %if.end

land.lhs.true:
  %origin5 = getelementptr inbounds i8, ptr %arrayidx4, i64 96
  %5 = load i64, ptr %origin5, align 8
  %cmp6 = icmp eq i64 %5, %and.i
  br i1 %cmp6, label %if.then, label %if.end

if.then:
  %add = add i64 %bytes, %start
  store i64 %add, ptr %end, align 8
  br label %cleanup

if.end:
  %tobool.not = icmp eq i64 %4, 0
  br i1 %tobool.not, label %if.end12, label %if.then11

if.then11:
  call fastcc void @settle(ptr %probe, ptr %arrayidx4)
  br label %if.end12

if.end12:
  %origin13 = getelementptr inbounds i8, ptr %arrayidx4, i64 96
  store i64 %and.i, ptr %origin13, align 8
  %sequence14 = getelementptr inbounds i8, ptr %0, i64 144
  %6 = load atomic i64, ptr %sequence14 monotonic, align 8
  store i64 %start, ptr %arrayidx4, align 8
  %add.i = add i64 %bytes, %start
  store i64 %add.i, ptr %end, align 8
  %program.i = getelementptr inbounds i8, ptr %probe, i64 24
  %7 = load i64, ptr %program.i, align 8
  %program2.i = getelementptr inbounds i8, ptr %arrayidx4, i64 16
  store i64 %7, ptr %program2.i, align 8
  %sequence3.i = getelementptr inbounds i8, ptr %arrayidx4, i64 24
  store i64 %6, ptr %sequence3.i, align 8
  %site4.i = getelementptr inbounds i8, ptr %arrayidx4, i64 32
  store i32 %site, ptr %site4.i, align 8
  %lane5.i = getelementptr inbounds i8, ptr %arrayidx4, i64 36
  store i32 %lane, ptr %lane5.i, align 4
  %8 = getelementptr inbounds i8, ptr %probe, i64 16
  %9 = load i64, ptr %8, align 8
  %clock.i = getelementptr inbounds i8, ptr %arrayidx4, i64 40
  store i64 %9, ptr %clock.i, align 8
  br label %cleanup

cleanup:
  ret void
}

define internal fastcc void @settle(ptr %probe, ptr %open) noinline {
entry:
  %count = getelementptr inbounds i8, ptr %open, i64 152
  %0 = load i64, ptr %count, align 8
  %tobool.not = icmp eq i64 %0, 0
  br i1 %tobool.not, label %if.end13, label %if.then

if.then:
  %first2.i = getelementptr inbounds i8, ptr %open, i64 104
  %end.i = getelementptr inbounds i8, ptr %open, i64 8
  %1 = load i64, ptr %end.i, align 8
  %2 = load i64, ptr %open, align 8
  %sub.i = sub i64 %1, %2
  %3 = load i64, ptr %first2.i, align 8
  %sub5.i = sub i64 %2, %3
  %lane.i = getelementptr inbounds i8, ptr %open, i64 36
  %4 = load i32, ptr %lane.i, align 4
  %conv.i = zext i32 %4 to i64
  %lane6.i = getelementptr inbounds i8, ptr %open, i64 140
  %5 = load i32, ptr %lane6.i, align 4
  %conv7.i = zext i32 %5 to i64
  %sub8.i = sub nsw i64 %conv.i, %conv7.i
  %end9.i = getelementptr inbounds i8, ptr %open, i64 112
  %6 = load i64, ptr %end9.i, align 8
  %sub11.i = sub i64 %6, %3
  %cmp.not.i = icmp eq i64 %sub.i, %sub11.i
  br i1 %cmp.not.i, label %lor.lhs.false.i, label %if.end12

lor.lhs.false.i:
  %sequence.i = getelementptr inbounds i8, ptr %open, i64 24
  %7 = load i64, ptr %sequence.i, align 8
  %sequence13.i = getelementptr inbounds i8, ptr %open, i64 128
  %8 = load i64, ptr %sequence13.i, align 8
  %or.i = or i64 %8, %7
  %tobool.not.i = icmp eq i64 %or.i, 0
  br i1 %tobool.not.i, label %if.end.i, label %if.end12

if.end.i:
  %cmp14.i = icmp eq i64 %0, 1
  br i1 %cmp14.i, label %continues.exit.thread33, label %if.end23.i

if.end23.i:
  %stride.i = getelementptr inbounds i8, ptr %open, i64 160
  %9 = load i64, ptr %stride.i, align 8
  %mul.i = mul i64 %9, %0
  %cmp25.i = icmp eq i64 %sub5.i, %mul.i
  br i1 %cmp25.i, label %continues.exit, label %if.end12

continues.exit:
  %lanes29.i = getelementptr inbounds i8, ptr %open, i64 168
  %10 = load i64, ptr %lanes29.i, align 8
  %mul30.i = mul i64 %10, %0
  %cmp31.i = icmp ne i64 %sub8.i, %mul30.i
  %cmp35.i = icmp ugt i64 %0, 4094
  %spec.select.i.not = or i1 %cmp35.i, %cmp31.i
  br i1 %spec.select.i.not, label %if.end12, label %if.end

continues.exit.thread33:
  %cmp17.i = icmp ult i64 %sub5.i, %sub.i
  %cmp19.i = icmp ugt i64 %sub5.i, 2147483647
  %or.cond.i.not38 = or i1 %cmp17.i, %cmp19.i
  %cmp21.i = icmp ugt i64 %sub8.i, 2097151
  %narrow.i.not = select i1 %or.cond.i.not38, i1 true, i1 %cmp21.i
  br i1 %narrow.i.not, label %if.end12, label %if.then4

if.then4:
  %stride = getelementptr inbounds i8, ptr %open, i64 160
  store i64 %sub5.i, ptr %stride, align 8
  %lanes = getelementptr inbounds i8, ptr %open, i64 168
  store i64 %sub8.i, ptr %lanes, align 8
  br label %if.end

if.end:
  %inc = add nuw nsw i64 %0, 1
  br label %return

if.end12:
  call fastcc void @log_repeated(ptr %probe, ptr %open)
  br label %if.end13

if.end13:
  %first14 = getelementptr inbounds i8, ptr %open, i64 104
  call void @llvm.memcpy.p0.p0.i64(ptr %first14, ptr %open, i64 48, i1 false)
  br label %return

return:
  %storemerge = phi i64 [ 1, %if.end13 ], [ %inc, %if.end ]
  store i64 %storemerge, ptr %count, align 8
  ret void
}

define void @footprint_lanes(ptr %probe, i32 %site, ptr %addresses, i64 %active, i32 %first) {
entry:
  %0 = load ptr, ptr %probe, align 8
  %sites = getelementptr inbounds i8, ptr %0, i64 88
  %1 = load ptr, ptr %sites, align 8
  %idxprom = sext i32 %site to i64
  %arrayidx = getelementptr %struct.site, ptr %1, i64 %idxprom
  %open1 = getelementptr inbounds i8, ptr %probe, i64 12352
  %arrayidx3 = getelementptr [1 x %struct.open_record], ptr %open1, i64 0, i64 %idxprom
  %stores = getelementptr inbounds i8, ptr %arrayidx, i64 32
  %2 = load i64, ptr %stores, align 8
  %lanes = getelementptr inbounds i8, ptr %arrayidx, i64 4
  %positions = getelementptr inbounds i8, ptr %arrayidx, i64 16
  %origin = getelementptr inbounds i8, ptr %arrayidx3, i64 96
  %sequence = getelementptr inbounds i8, ptr %arrayidx3, i64 24
  br label %for.cond

for.cond:
  %indvars.iv = phi i64 [ %indvars.iv.next, %for.inc ], [ 0, %entry ]
  %spare.0 = phi i64 [ %spare.1, %for.inc ], [ %2, %entry ]
  %seen.0 = phi i64 [ %seen.1, %for.inc ], [ -1, %entry ]
  %3 = load i32, ptr %lanes, align 4
  %4 = zext i32 %3 to i64
  %cmp = icmp ult i64 %indvars.iv, %4
  br i1 %cmp, label %for.body, label %for.cond.cleanup

for.cond.cleanup:
  ret void

for.body:
  %shl = shl nuw i64 1, %indvars.iv
  %and = and i64 %shl, %active
  %tobool.not = icmp eq i64 %and, 0
  br i1 %tobool.not, label %for.inc, label %if.end

if.end:
  %arrayidx5 = getelementptr i64, ptr %addresses, i64 %indvars.iv
  %5 = load i64, ptr %arrayidx5, align 8
  %cmp6 = icmp ne i64 %5, %seen.0
  %tobool7 = icmp ne i64 %spare.0, 0
  %or.cond = select i1 %cmp6, i1 true, i1 %tobool7
  br i1 %or.cond, label %land.end, label %land.rhs

land.rhs:
  %6 = load i64, ptr %arrayidx3, align 8
  %cmp8 = icmp eq i64 %6, %seen.0
  br label %land.end

land.end:
  %7 = phi i1 [ false, %if.end ], [ %cmp8, %land.rhs ]
  %cmp9 = icmp eq i64 %5, %seen.0
  br i1 %cmp9, label %cond.end, label %cond.false

cond.false:
  %8 = load i64, ptr %stores, align 8
  br label %cond.end

cond.end:
  %cond = phi i64 [ %8, %cond.false ], [ 0, %land.end ]
  br i1 %7, label %if.then12, label %if.else

if.then12:
  store i64 -1, ptr %origin, align 8
  %9 = load i64, ptr %sequence, align 8
  %add = add i64 %9, 281474976710656
  store i64 %add, ptr %sequence, align 8
  br label %for.inc

if.else:
  %10 = load i32, ptr %arrayidx, align 8
  %conv = zext i32 %10 to i64
  %11 = load ptr, ptr %positions, align 8
  %arrayidx15 = getelementptr i32, ptr %11, i64 %indvars.iv
  %12 = load i32, ptr %arrayidx15, align 4
  %add16 = add i32 %12, %first
  call void @footprint(ptr %probe, i32 %site, i64 %5, i64 %conv, i32 %add16)
  br label %for.inc

for.inc:
  %spare.1 = phi i64 [ %spare.0, %for.body ], [ %cond, %if.else ], [ %cond, %if.then12 ]
  %seen.1 = phi i64 [ %seen.0, %for.body ], [ %5, %if.else ], [ %5, %if.then12 ]
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  br label %for.cond
}

define void @footprint_tile(ptr %probe, i32 %site, i64 %start, i64 %bytes, i32 %lane, i64 %count, i64 %stride, i32 %lanes) {
entry:
  %0 = load ptr, ptr %probe, align 8
  %open2 = getelementptr inbounds i8, ptr %probe, i64 12352
  %idxprom = sext i32 %site to i64
  %arrayidx = getelementptr [1 x %struct.open_record], ptr %open2, i64 0, i64 %idxprom
  %cmp = icmp slt i64 %bytes, 1
  br i1 %cmp, label %cleanup35, label %if.end

if.end:
  %sequence3 = getelementptr inbounds i8, ptr %0, i64 144
  %1 = load atomic i64, ptr %sequence3 monotonic, align 8
  %end = getelementptr inbounds i8, ptr %arrayidx, i64 8
  %2 = load i64, ptr %end, align 8
  %count4 = getelementptr inbounds i8, ptr %arrayidx, i64 152
  %3 = load i64, ptr %count4, align 8
  %or = or i64 %2, %1
  %or5 = or i64 %or, %3
  %tobool.not = icmp eq i64 %or5, 0
  %sub = add i64 %count, -1
  %sub7 = add i64 %count, -3
  %cmp8 = icmp ult i64 %sub7, 4093
  %or.cond78 = and i1 %cmp8, %tobool.not
  br i1 %or.cond78, label %land.lhs.true9, label %if.end25

land.lhs.true9:
  %cmp10 = icmp ugt i64 %stride, %bytes
  %cmp12 = icmp ult i64 %stride, 2147483648
  %or.cond = and i1 %cmp10, %cmp12
  %cmp14 = icmp ult i32 %lanes, 2097152
  %or.cond37 = and i1 %or.cond, %cmp14
  br i1 %or.cond37, label %if.then15, label %if.end25

if.then15:
  %mul = mul nsw i64 %sub, %stride
  %add = add i64 %mul, %start
  %conv = trunc i64 %sub to i32
  %mul16 = mul i32 %conv, %lanes
  %add17 = add i32 %mul16, %lane
  %sites = getelementptr inbounds i8, ptr %0, i64 88
  %4 = load ptr, ptr %sites, align 8
  %arrayidx19 = getelementptr %struct.site, ptr %4, i64 %idxprom
  %conv.i = zext i32 %add17 to i64
  %5 = load i32, ptr %arrayidx19, align 8
  %conv1.i = zext i32 %5 to i64
  %mul.i = mul nuw i64 %conv1.i, %conv.i
  %sub.i = sub i64 %add, %mul.i
  %period.i = getelementptr inbounds i8, ptr %arrayidx19, i64 24
  %6 = load i64, ptr %period.i, align 8
  %and.i = and i64 %sub.i, %6
  %origin = getelementptr inbounds i8, ptr %arrayidx, i64 96
  store i64 %and.i, ptr %origin, align 8
  store i64 %add, ptr %arrayidx, align 8
  %add.i79 = add i64 %add, %bytes
  store i64 %add.i79, ptr %end, align 8
  %program.i81 = getelementptr inbounds i8, ptr %probe, i64 24
  %7 = load i64, ptr %program.i81, align 8
  %program2.i82 = getelementptr inbounds i8, ptr %arrayidx, i64 16
  store i64 %7, ptr %program2.i82, align 8
  %sequence3.i83 = getelementptr inbounds i8, ptr %arrayidx, i64 24
  store i64 0, ptr %sequence3.i83, align 8
  %site4.i84 = getelementptr inbounds i8, ptr %arrayidx, i64 32
  store i32 %site, ptr %site4.i84, align 8
  %lane5.i85 = getelementptr inbounds i8, ptr %arrayidx, i64 36
  store i32 %add17, ptr %lane5.i85, align 4
  %8 = getelementptr inbounds i8, ptr %probe, i64 16
  %9 = load i64, ptr %8, align 8
  %clock.i86 = getelementptr inbounds i8, ptr %arrayidx, i64 40
  store i64 %9, ptr %clock.i86, align 8
  %first = getelementptr inbounds i8, ptr %arrayidx, i64 104
  store i64 %start, ptr %first, align 8
  %add.i = add i64 %bytes, %start
  %end.i = getelementptr inbounds i8, ptr %arrayidx, i64 112
  store i64 %add.i, ptr %end.i, align 8
  %10 = load i64, ptr %program.i81, align 8
  %program2.i = getelementptr inbounds i8, ptr %arrayidx, i64 120
  store i64 %10, ptr %program2.i, align 8
  %sequence3.i = getelementptr inbounds i8, ptr %arrayidx, i64 128
  store i64 0, ptr %sequence3.i, align 8
  %site4.i = getelementptr inbounds i8, ptr %arrayidx, i64 136
  store i32 %site, ptr %site4.i, align 8
  %lane5.i = getelementptr inbounds i8, ptr %arrayidx, i64 140
  store i32 %lane, ptr %lane5.i, align 4
  %11 = load i64, ptr %8, align 8
  %clock.i = getelementptr inbounds i8, ptr %arrayidx, i64 144
  store i64 %11, ptr %clock.i, align 8
  store i64 %sub, ptr %count4, align 8
  %stride22 = getelementptr inbounds i8, ptr %arrayidx, i64 160
  store i64 %stride, ptr %stride22, align 8
  %conv23 = zext nneg i32 %lanes to i64
  %lanes24 = getelementptr inbounds i8, ptr %arrayidx, i64 168
  store i64 %conv23, ptr %lanes24, align 8
  br label %cleanup35

if.end25:
  %smax = call i64 @llvm.smax.i64(i64 %count, i64 0)
  br label %for.cond

for.cond:
  %row.0 = phi i64 [ 0, %if.end25 ], [ %inc, %for.body ]
  %exitcond.not = icmp eq i64 %row.0, %smax
  br i1 %exitcond.not, label %cleanup35, label %for.body

for.body:
  %mul28 = mul i64 %row.0, %stride
  %add29 = add i64 %mul28, %start
  %conv30 = trunc i64 %row.0 to i32
  %mul31 = mul i32 %conv30, %lanes
  %add32 = add i32 %mul31, %lane
  call void @footprint(ptr %probe, i32 %site, i64 %add29, i64 %bytes, i32 %add32)
  %inc = add nuw i64 %row.0, 1
  br label %for.cond

cleanup35:
  ret void
}

define void @close(ptr %probe) {
entry:
  %0 = load ptr, ptr %probe, align 8
  %site_count = getelementptr inbounds i8, ptr %0, i64 96
  %1 = load i64, ptr %site_count, align 8
  %conv = trunc i64 %1 to i32
  %open2 = getelementptr inbounds i8, ptr %probe, i64 12352
  %smax = call i32 @llvm.smax.i32(i32 %conv, i32 0)
  %wide.trip.count = zext nneg i32 %smax to i64
  br label %for.cond

for.cond:
  %indvars.iv = phi i64 [ %indvars.iv.next, %cleanup ], [ 0, %entry ]
  %exitcond.not = icmp eq i64 %indvars.iv, %wide.trip.count
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body

for.cond.cleanup:
  ret void

for.body:
  %arrayidx = getelementptr [1 x %struct.open_record], ptr %open2, i64 0, i64 %indvars.iv
  %end = getelementptr inbounds i8, ptr %arrayidx, i64 8
  %2 = load i64, ptr %end, align 8
  %tobool.not = icmp eq i64 %2, 0
  br i1 %tobool.not, label %cleanup, label %if.end

if.end:
  call fastcc void @settle(ptr %probe, ptr %arrayidx)
  store i64 0, ptr %end, align 8
  call fastcc void @log_repeated(ptr %probe, ptr %arrayidx)
  br label %cleanup

cleanup:
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  br label %for.cond
}

define internal fastcc void @log_repeated(ptr %probe, ptr %open) noinline {
entry:
  %first1 = getelementptr inbounds i8, ptr %open, i64 104
  %count2 = getelementptr inbounds i8, ptr %open, i64 152
  %0 = load i64, ptr %count2, align 8
  store i64 0, ptr %count2, align 8
  %cmp = icmp ugt i64 %0, 2
  br i1 %cmp, label %if.then, label %if.end

if.then:
  %sub = add i64 %0, -1
  %stride = getelementptr inbounds i8, ptr %open, i64 160
  %1 = load i64, ptr %stride, align 8
  %mul = mul i64 %1, %sub
  %end = getelementptr inbounds i8, ptr %open, i64 112
  %2 = load i64, ptr %end, align 8
  %add = add i64 %2, %mul
  store i64 %add, ptr %end, align 8
  %lanes = getelementptr inbounds i8, ptr %open, i64 168
  %3 = load i64, ptr %lanes, align 8
  %shl = shl i64 %3, 12
  %shl5 = shl i64 %1, 33
  %4 = or i64 %shl5, %shl
  %or6 = or i64 %4, %0
  %sequence = getelementptr inbounds i8, ptr %open, i64 128
  store i64 %or6, ptr %sequence, align 8
  %site = getelementptr inbounds i8, ptr %open, i64 136
  %5 = load i32, ptr %site, align 8
  %or7 = or i32 %5, 1073741824
  store i32 %or7, ptr %site, align 8
  br label %cleanup.sink.split

if.end:
  call fastcc void @log_record(ptr %probe, ptr %first1)
  %cmp8 = icmp eq i64 %0, 2
  br i1 %cmp8, label %if.then9, label %cleanup

if.then9:
  %stride10 = getelementptr inbounds i8, ptr %open, i64 160
  %6 = load i64, ptr %stride10, align 8
  %7 = load i64, ptr %first1, align 8
  %add11 = add i64 %7, %6
  store i64 %add11, ptr %first1, align 8
  %end13 = getelementptr inbounds i8, ptr %open, i64 112
  %8 = load i64, ptr %end13, align 8
  %add14 = add i64 %8, %6
  store i64 %add14, ptr %end13, align 8
  %lanes15 = getelementptr inbounds i8, ptr %open, i64 168
  %9 = load i64, ptr %lanes15, align 8
  %conv = trunc i64 %9 to i32
  %lane = getelementptr inbounds i8, ptr %open, i64 140
  %10 = load i32, ptr %lane, align 4
  %add16 = add i32 %10, %conv
  store i32 %add16, ptr %lane, align 4
  br label %cleanup.sink.split

cleanup.sink.split:
  call fastcc void @log_record(ptr %probe, ptr %first1)
  br label %cleanup

cleanup:
  ret void
}

define void @pass_barrier(ptr %probe) {
entry:
  call void @close(ptr %probe)
  %barrier = getelementptr inbounds i8, ptr %probe, i64 20
  %0 = load i32, ptr %barrier, align 4
  %inc = add i32 %0, 1
  store i32 %inc, ptr %barrier, align 4
  ret void
}

define void @pass_iteration(ptr %probe, i32 %fill) {
entry:
  call void @close(ptr %probe)
  %0 = getelementptr inbounds i8, ptr %probe, i64 16
  %1 = load i32, ptr %0, align 8
  %or = or i32 %1, %fill
  %cmp = icmp eq i32 %or, 2147483647
  %add = add i32 %or, 1
  %cond = select i1 %cmp, i32 2147483647, i32 %add
  store i32 %cond, ptr %0, align 8
  ret void
}

define void @lock(ptr %probe) {
entry:
  call void @close(ptr %probe)
  %0 = load ptr, ptr %probe, align 8
  %mutex = getelementptr inbounds i8, ptr %0, i64 136
  call fastcc void @acquire(ptr %mutex)
  ret void
}

define i64 @synchronise(ptr %probe, i32 %site, i64 %address, i32 %flags, i64 %value) {
entry:
  %question = alloca [4 x i64], align 16
  %record = alloca %struct.synchronisation, align 8
  %0 = load ptr, ptr %probe, align 8
  %sequence2 = getelementptr inbounds i8, ptr %0, i64 144
  %1 = atomicrmw add ptr %sequence2, i64 1 monotonic, align 8
  %add = add i64 %1, 1
  store i64 %value, ptr %question, align 16
  %arrayinit.element = getelementptr inbounds i8, ptr %question, i64 8
  store i64 %address, ptr %arrayinit.element, align 8
  %arrayinit.element3 = getelementptr inbounds i8, ptr %question, i64 16
  %conv = zext i32 %flags to i64
  store i64 %conv, ptr %arrayinit.element3, align 16
  %arrayinit.element4 = getelementptr inbounds i8, ptr %question, i64 24
  store i64 %add, ptr %arrayinit.element4, align 8
  %rereads = getelementptr inbounds i8, ptr %0, i64 184
  %2 = load i64, ptr %rereads, align 8
  %tobool.not = icmp eq i64 %2, 0
  br i1 %tobool.not, label %if.end, label %if.then

if.then:
  %call = call fastcc i32 @call_back(ptr %probe, i32 10, i32 %site, ptr %question)
  %.pre = load i64, ptr %question, align 16
  br label %if.end

if.end:
  %3 = phi i64 [ %.pre, %if.then ], [ %value, %entry ]
  %mutex = getelementptr inbounds i8, ptr %0, i64 136
  store atomic i32 0, ptr %mutex release, align 4
  %and = lshr i32 %flags, 4
  %and.lobit = and i32 %and, 1
  store i64 %address, ptr %record, align 8
  %end = getelementptr inbounds i8, ptr %record, i64 8
  %sites = getelementptr inbounds i8, ptr %0, i64 88
  %4 = load ptr, ptr %sites, align 8
  %idxprom = sext i32 %site to i64
  %arrayidx6 = getelementptr %struct.site, ptr %4, i64 %idxprom
  %5 = load i32, ptr %arrayidx6, align 8
  %conv7 = zext i32 %5 to i64
  %add8 = add i64 %conv7, %address
  store i64 %add8, ptr %end, align 8
  %program = getelementptr inbounds i8, ptr %record, i64 16
  %program9 = getelementptr inbounds i8, ptr %probe, i64 24
  %6 = load i64, ptr %program9, align 8
  store i64 %6, ptr %program, align 8
  %sequence10 = getelementptr inbounds i8, ptr %record, i64 24
  store i64 %add, ptr %sequence10, align 8
  %site11 = getelementptr inbounds i8, ptr %record, i64 32
  %not = xor i32 %site, -1
  store i32 %not, ptr %site11, align 8
  %epoch = getelementptr inbounds i8, ptr %record, i64 36
  %7 = getelementptr inbounds i8, ptr %probe, i64 16
  %8 = load i32, ptr %7, align 8
  store i32 %8, ptr %epoch, align 4
  %barrier = getelementptr inbounds i8, ptr %record, i64 40
  %barrier13 = getelementptr inbounds i8, ptr %probe, i64 20
  %9 = load i32, ptr %barrier13, align 4
  store i32 %9, ptr %barrier, align 8
  %flags14 = getelementptr inbounds i8, ptr %record, i64 44
  store i32 %flags, ptr %flags14, align 4
  %and15 = and i32 %flags, 518
  %tobool16.not = icmp eq i32 %and15, 0
  %cond17 = select i1 %tobool16.not, i64 1, i64 3
  %logged = getelementptr inbounds i8, ptr %probe, i64 8
  %10 = load i64, ptr %logged, align 8
  %cmp = icmp ugt i64 %10, 1
  br i1 %cmp, label %if.then21, label %if.end34

if.then21:
  %log.i = getelementptr inbounds i8, ptr %probe, i64 64
  %sub1.i = add i64 %10, -1
  %arrayidx.i = getelementptr [256 x %struct.record], ptr %log.i, i64 0, i64 %sub1.i
  %11 = load i64, ptr %arrayidx.i, align 8
  %cmp24 = icmp eq i64 %11, %address
  br i1 %cmp24, label %land.lhs.true, label %land.end

land.lhs.true:
  %program26 = getelementptr inbounds i8, ptr %arrayidx.i, i64 16
  %12 = load i64, ptr %program26, align 8
  %cmp28 = icmp eq i64 %12, %6
  br i1 %cmp28, label %land.rhs, label %land.end

land.rhs:
  %site30 = getelementptr inbounds i8, ptr %arrayidx.i, i64 32
  %13 = load i32, ptr %site30, align 8
  %cmp31 = icmp eq i32 %13, %site
  %14 = zext i1 %cmp31 to i64
  br label %land.end

land.end:
  %land.ext = phi i64 [ 0, %land.lhs.true ], [ 0, %if.then21 ], [ %14, %land.rhs ]
  %sub = sub nuw i64 %10, %land.ext
  br label %if.end34

if.end34:
  %end19.0 = phi i64 [ %sub, %land.end ], [ %10, %if.end ]
  %others.0 = phi i64 [ %land.ext, %land.end ], [ 0, %if.end ]
  %add.i = add nuw nsw i64 %others.0, 1
  %sub.i = add nsw i64 %cond17, -1
  %mul.i = mul nuw nsw i64 %add.i, %sub.i
  %cmp.not.i = icmp ult i64 %mul.i, %end19.0
  br i1 %cmp.not.i, label %for.cond.i.preheader, label %if.end42

for.cond.i.preheader:
  %log.i.i = getelementptr inbounds i8, ptr %probe, i64 64
  %tobool.not.i = icmp eq i64 %others.0, 0
  %.site.i = select i1 %tobool.not.i, i32 %not, i32 %site
  br label %for.cond.i

for.cond.i:
  %barrier.0.i = phi i32 [ %20, %lor.lhs.false23.i ], [ %9, %for.cond.i.preheader ]
  %n.0.i = phi i64 [ %inc.i, %lor.lhs.false23.i ], [ 0, %for.cond.i.preheader ]
  %exitcond.not = icmp eq i64 %n.0.i, %cond17
  br i1 %exitcond.not, label %if.then37, label %for.body.i

for.body.i:
  %mul3.i = mul nuw nsw i64 %n.0.i, %add.i
  %15 = xor i64 %mul3.i, -1
  %sub1.i.i = add i64 %end19.0, %15
  %arrayidx.i.i = getelementptr [256 x %struct.record], ptr %log.i.i, i64 0, i64 %sub1.i.i
  %add.ptr.i = getelementptr %struct.synchronisation, ptr %arrayidx.i.i, i64 %others.0
  %16 = load i64, ptr %arrayidx.i.i, align 8
  %cmp5.not.i = icmp eq i64 %16, %address
  br i1 %cmp5.not.i, label %lor.lhs.false.i, label %if.end42

lor.lhs.false.i:
  %program.i = getelementptr inbounds i8, ptr %arrayidx.i.i, i64 16
  %17 = load i64, ptr %program.i, align 8
  %cmp7.not.i = icmp eq i64 %17, %6
  br i1 %cmp7.not.i, label %lor.lhs.false8.i, label %if.end42

lor.lhs.false8.i:
  %site9.i = getelementptr inbounds i8, ptr %arrayidx.i.i, i64 32
  %18 = load i32, ptr %site9.i, align 8
  %cmp11.not.i = icmp eq i32 %18, %not
  br i1 %cmp11.not.i, label %lor.lhs.false12.i, label %if.end42

lor.lhs.false12.i:
  %flags.i = getelementptr inbounds i8, ptr %arrayidx.i.i, i64 44
  %19 = load i32, ptr %flags.i, align 4
  %cmp14.not.i = icmp eq i32 %19, %flags
  br i1 %cmp14.not.i, label %lor.lhs.false15.i, label %if.end42

lor.lhs.false15.i:
  %barrier16.i = getelementptr inbounds i8, ptr %arrayidx.i.i, i64 40
  %20 = load i32, ptr %barrier16.i, align 8
  %sub17.i = sub i32 %barrier.0.i, %and.lobit
  %cmp18.not.i = icmp eq i32 %20, %sub17.i
  br i1 %cmp18.not.i, label %lor.lhs.false19.i, label %if.end42

lor.lhs.false19.i:
  %21 = load i64, ptr %add.ptr.i, align 8
  %cmp22.not.i = icmp eq i64 %21, %address
  br i1 %cmp22.not.i, label %lor.lhs.false23.i, label %if.end42

lor.lhs.false23.i:
  %site24.i = getelementptr inbounds i8, ptr %add.ptr.i, i64 32
  %22 = load i32, ptr %site24.i, align 8
  %cmp26.not.i = icmp eq i32 %22, %.site.i
  %inc.i = add nuw nsw i64 %n.0.i, 1
  br i1 %cmp26.not.i, label %for.cond.i, label %if.end42

if.then37:
  store i64 %end19.0, ptr %logged, align 8
  %sub39 = add i64 %end19.0, -1
  %sequence41 = getelementptr [256 x %struct.record], ptr %log.i.i, i64 0, i64 %sub39, i32 3
  store i64 %add, ptr %sequence41, align 8
  br label %cleanup

if.end42:
  call fastcc void @log_record(ptr %probe, ptr %record)
  %add44 = add i32 %8, 1
  store i32 %add44, ptr %7, align 8
  %add47 = add i32 %9, %and.lobit
  store i32 %add47, ptr %barrier13, align 4
  br label %cleanup

cleanup:
  ret i64 %3
}

define internal fastcc void @log_record(ptr %probe, ptr %record) noinline {
entry:
  %log = getelementptr inbounds i8, ptr %probe, i64 64
  %logged = getelementptr inbounds i8, ptr %probe, i64 8
  %0 = load i64, ptr %logged, align 8
  %arrayidx = getelementptr [256 x %struct.record], ptr %log, i64 0, i64 %0
  call void @llvm.memcpy.p0.p0.i64(ptr %arrayidx, ptr %record, i64 48, i1 false)
  %1 = load i64, ptr %logged, align 8
  %inc = add i64 %1, 1
  store i64 %inc, ptr %logged, align 8
  %cmp = icmp ugt i64 %inc, 255
  br i1 %cmp, label %if.then, label %if.end

if.then:
  call void @finish(ptr %probe)
  br label %if.end

if.end:
  ret void
}

declare i32 @sched_yield()

declare i64 @llvm.usub.sat.i64(i64, i64)

declare i64 @llvm.umin.i64(i64, i64)

declare i64 @llvm.smax.i64(i64, i64)

declare i32 @llvm.smax.i32(i32, i32)
