; Made of native_aligned_memory.c by `python -m tools.native_code`; change that file.
; fff036063c6de5fe
define void @give_back(ptr %job, ptr %arena) {
entry:
  %blocks = alloca [9 x i64], align 16
  %start = getelementptr inbounds i8, ptr %job, i64 16
  %0 = load i64, ptr %start, align 8
  %sub = add i64 %0, -128
  %end = getelementptr inbounds i8, ptr %job, i64 24
  %1 = load i64, ptr %end, align 8
  %reass.sub = sub i64 %1, %0
  %add = add i64 %reass.sub, 256
  %free = getelementptr inbounds i8, ptr %job, i64 8
  br label %for.cond

for.cond:
  %bytes.0 = phi i64 [ 24, %entry ], [ %add30, %for.cond.cleanup8 ]
  %cmp = icmp ult i64 %bytes.0, 121
  br i1 %cmp, label %for.cond2, label %for.cond.cleanup

for.cond.cleanup:
  ret void

for.cond2:
  %indvars.iv = phi i64 [ %indvars.iv.next, %for.body5 ], [ 0, %for.cond ]
  %exitcond.not = icmp eq i64 %indvars.iv, 9
  br i1 %exitcond.not, label %for.cond6, label %for.body5

for.body5:
  %2 = load ptr, ptr %job, align 8
  %call = call ptr %2(i64 %bytes.0)
  %3 = ptrtoint ptr %call to i64
  %arrayidx = getelementptr [9 x i64], ptr %blocks, i64 0, i64 %indvars.iv
  store volatile i64 %3, ptr %arrayidx, align 8
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  br label %for.cond2

for.cond6:
  %beside.0 = phi i32 [ %inc27, %for.cond.cleanup13 ], [ 0, %for.cond2 ]
  %exitcond50.not = icmp eq i32 %beside.0, 2
  br i1 %exitcond50.not, label %for.cond.cleanup8, label %for.cond11

for.cond.cleanup8:
  %add30 = add nuw nsw i64 %bytes.0, 16
  br label %for.cond

for.cond11:
  %indvars.iv46 = phi i64 [ %indvars.iv.next47, %for.inc23 ], [ 0, %for.cond6 ]
  %exitcond49.not = icmp eq i64 %indvars.iv46, 9
  br i1 %exitcond49.not, label %for.cond.cleanup13, label %for.body14

for.cond.cleanup13:
  %inc27 = add nuw nsw i32 %beside.0, 1
  br label %for.cond6

for.body14:
  %arrayidx16 = getelementptr [9 x i64], ptr %blocks, i64 0, i64 %indvars.iv46
  %4 = load volatile i64, ptr %arrayidx16, align 8
  %sub17 = sub i64 %4, %sub
  %cmp18 = icmp ult i64 %sub17, %add
  %conv = zext i1 %cmp18 to i32
  %cmp19 = icmp eq i32 %beside.0, %conv
  br i1 %cmp19, label %if.then, label %for.inc23

if.then:
  %5 = load ptr, ptr %free, align 8
  %6 = load volatile i64, ptr %arrayidx16, align 8
  %7 = inttoptr i64 %6 to ptr
  call void %5(ptr %7)
  br label %for.inc23

for.inc23:
  %indvars.iv.next47 = add nuw nsw i64 %indvars.iv46, 1
  br label %for.cond11
}
