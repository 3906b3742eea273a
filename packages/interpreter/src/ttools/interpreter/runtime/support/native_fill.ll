; Made of native_fill.c by `python -m tools.native_code`; change that file.
; 29254f44087cab16
define void @fill(ptr %job, ptr %arena) {
entry:
  %words1 = getelementptr inbounds i8, ptr %job, i64 16
  %0 = load i64, ptr %words1, align 8
  %word2 = getelementptr inbounds i8, ptr %job, i64 32
  %1 = load i64, ptr %word2, align 8
  %blocks3 = getelementptr inbounds i8, ptr %job, i64 8
  %2 = load i64, ptr %blocks3, align 8
  %memory4 = getelementptr inbounds i8, ptr %job, i64 24
  %3 = load ptr, ptr %memory4, align 8
  %vecinit = insertelement <8 x i64> poison, i64 %1, i64 0
  %vecinit11 = shufflevector <8 x i64> %vecinit, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %for.cond

for.cond:
  %4 = atomicrmw add ptr %job, i64 1 monotonic, align 8
  %cmp.not = icmp ult i64 %4, %2
  br i1 %cmp.not, label %if.end, label %cleanup22

if.end:
  %mul = shl i64 %4, 13
  %add = add i64 %mul, 8192
  %cond.i = call i64 @llvm.umin.i64(i64 %add, i64 %0)
  %sub = sub i64 %cond.i, %mul
  %and = and i64 %sub, -8
  %add12 = add i64 %and, %mul
  br label %for.cond13

for.cond13:
  %n.0 = phi i64 [ %mul, %if.end ], [ %add15, %for.body ]
  %cmp14 = icmp ult i64 %n.0, %add12
  br i1 %cmp14, label %for.body, label %for.cond16

for.body:
  %arrayidx = getelementptr i64, ptr %3, i64 %n.0
  store <8 x i64> %vecinit11, ptr %arrayidx, align 8
  %add15 = add nuw i64 %n.0, 8
  br label %for.cond13

for.cond16:
  %n.1 = phi i64 [ %inc, %for.body18 ], [ %n.0, %for.cond13 ]
  %cmp17 = icmp ult i64 %n.1, %cond.i
  br i1 %cmp17, label %for.body18, label %for.cond

for.body18:
  %arrayidx19 = getelementptr i64, ptr %3, i64 %n.1
  store volatile i64 %1, ptr %arrayidx19, align 8
  %inc = add nuw i64 %n.1, 1
  br label %for.cond16

cleanup22:
  ret void
}

declare i64 @llvm.umin.i64(i64, i64)
