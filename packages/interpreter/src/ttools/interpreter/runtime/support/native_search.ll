; Made of native_search.c by `python -m tools.native_code`; change that file.
; a86632689d1012ab
define void @search(ptr %job, ptr %arena) {
entry:
  %blocks1 = getelementptr inbounds i8, ptr %job, i64 8
  %0 = load i64, ptr %blocks1, align 8
  %halves = getelementptr inbounds i8, ptr %job, i64 16
  %memory = getelementptr inbounds i8, ptr %job, i64 24
  %word = getelementptr inbounds i8, ptr %job, i64 32
  br label %for.cond

for.cond:
  %1 = atomicrmw add ptr %job, i64 1 monotonic, align 8
  %cmp.not = icmp ult i64 %1, %0
  br i1 %cmp.not, label %if.end, label %cleanup10

if.end:
  %mul = shl i64 %1, 16
  %add = add i64 %mul, 65536
  %2 = load i64, ptr %halves, align 8
  %cond.i = call i64 @llvm.umin.i64(i64 %add, i64 %2)
  %3 = load ptr, ptr %memory, align 8
  %add.ptr = getelementptr i32, ptr %3, i64 %mul
  %sub = sub i64 %cond.i, %mul
  %4 = load i64, ptr %word, align 8
  %conv.i = trunc i64 %4 to i32
  %shr.i = lshr i64 %4, 32
  %conv1.i = trunc nuw i64 %shr.i to i32
  %5 = insertelement <8 x i64> poison, i64 %4, i64 0
  %vecinit2.i = bitcast <8 x i64> %5 to <16 x i32>
  %vecinit3.i = insertelement <16 x i32> %vecinit2.i, i32 %conv.i, i64 2
  %vecinit4.i = insertelement <16 x i32> %vecinit3.i, i32 %conv1.i, i64 3
  %vecinit5.i = insertelement <16 x i32> %vecinit4.i, i32 %conv.i, i64 4
  %vecinit6.i = insertelement <16 x i32> %vecinit5.i, i32 %conv1.i, i64 5
  %vecinit7.i = insertelement <16 x i32> %vecinit6.i, i32 %conv.i, i64 6
  %vecinit8.i = insertelement <16 x i32> %vecinit7.i, i32 %conv1.i, i64 7
  %vecinit9.i = insertelement <16 x i32> %vecinit8.i, i32 %conv.i, i64 8
  %vecinit10.i = insertelement <16 x i32> %vecinit9.i, i32 %conv1.i, i64 9
  %vecinit11.i = insertelement <16 x i32> %vecinit10.i, i32 %conv.i, i64 10
  %vecinit12.i = insertelement <16 x i32> %vecinit11.i, i32 %conv1.i, i64 11
  %vecinit13.i = insertelement <16 x i32> %vecinit12.i, i32 %conv.i, i64 12
  %vecinit14.i = insertelement <16 x i32> %vecinit13.i, i32 %conv1.i, i64 13
  %vecinit15.i = insertelement <16 x i32> %vecinit14.i, i32 %conv.i, i64 14
  %vecinit16.i = insertelement <16 x i32> %vecinit15.i, i32 %conv1.i, i64 15
  %and.i = and i64 %sub, -1024
  br label %while.cond.i

while.cond.i:
  %n.0.i = phi i64 [ 0, %if.end ], [ %add.i, %for.cond.cleanup.i ]
  %cmp.i = icmp ult i64 %n.0.i, %and.i
  br i1 %cmp.i, label %while.body.i, label %for.cond29.i

while.body.i:
  %add.i = add nuw i64 %n.0.i, 1024
  br label %for.cond.i

for.cond.i:
  %one.0.i = phi <16 x i32> [ <i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1>, %while.body.i ], [ %elt.min.i, %for.body.i ]
  %other.0.i = phi <16 x i32> [ <i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1>, %while.body.i ], [ %elt.min25.i, %for.body.i ]
  %n.1.i = phi i64 [ %n.0.i, %while.body.i ], [ %add26.i, %for.body.i ]
  %cmp20.i = icmp ult i64 %n.1.i, %add.i
  br i1 %cmp20.i, label %for.body.i, label %for.cond.cleanup.i

for.cond.cleanup.i:
  %elt.min27.i = call <16 x i32> @llvm.umin.v16i32(<16 x i32> %one.0.i, <16 x i32> %other.0.i)
  %rdx.min.i = call i32 @llvm.vector.reduce.umin.v16i32(<16 x i32> %elt.min27.i)
  %tobool.not.not.i = icmp eq i32 %rdx.min.i, 0
  br i1 %tobool.not.not.i, label %if.then3, label %while.cond.i

for.body.i:
  %arrayidx.i = getelementptr i32, ptr %add.ptr, i64 %n.1.i
  %6 = load <16 x i32>, ptr %arrayidx.i, align 1
  %xor.i = xor <16 x i32> %6, %vecinit16.i
  %elt.min.i = call <16 x i32> @llvm.umin.v16i32(<16 x i32> %one.0.i, <16 x i32> %xor.i)
  %arrayidx23.i = getelementptr i8, ptr %arrayidx.i, i64 64
  %7 = load <16 x i32>, ptr %arrayidx23.i, align 1
  %xor24.i = xor <16 x i32> %7, %vecinit16.i
  %elt.min25.i = call <16 x i32> @llvm.umin.v16i32(<16 x i32> %other.0.i, <16 x i32> %xor24.i)
  %add26.i = add nuw i64 %n.1.i, 32
  br label %for.cond.i

for.cond29.i:
  %n.2.i = phi i64 [ %inc.i, %for.body32.i ], [ %n.0.i, %while.cond.i ]
  %cmp30.i = icmp ult i64 %n.2.i, %sub
  br i1 %cmp30.i, label %for.body32.i, label %for.cond

for.body32.i:
  %arrayidx33.i = getelementptr i32, ptr %add.ptr, i64 %n.2.i
  %8 = load i32, ptr %arrayidx33.i, align 1
  %and34.i = and i64 %n.2.i, 1
  %tobool35.not.i = icmp eq i64 %and34.i, 0
  %cond.i22 = select i1 %tobool35.not.i, i32 %conv.i, i32 %conv1.i
  %cmp36.i = icmp eq i32 %8, %cond.i22
  %inc.i = add nuw i64 %n.2.i, 1
  br i1 %cmp36.i, label %if.then3, label %for.cond29.i

if.then3:
  %found = getelementptr inbounds i8, ptr %job, i64 40
  store atomic i64 1, ptr %found monotonic, align 8
  store atomic i64 %0, ptr %job monotonic, align 8
  br label %cleanup10

cleanup10:
  ret void
}

declare <16 x i32> @llvm.umin.v16i32(<16 x i32>, <16 x i32>)

declare i32 @llvm.vector.reduce.umin.v16i32(<16 x i32>)

declare i64 @llvm.umin.i64(i64, i64)
