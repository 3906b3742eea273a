; Made of native_tiles.c by `python -m tools.native_code`; change that file.
; ce29a7a9b0f11278
%struct.record = type { i64, i64, i64, i64, i32, i32, i64 }
%struct.spread = type { i64, i64, i64, i64, i64, i64 }
%struct.bands = type { i64, i64, i64, i64, i64, i64 }

define void @survey(ptr %job, ptr %arena) {
entry:
  %0 = load ptr, ptr %job, align 8
  %sites2 = getelementptr inbounds i8, ptr %job, i64 16
  %1 = load ptr, ptr %sites2, align 8
  %count3 = getelementptr inbounds i8, ptr %job, i64 8
  %2 = load i64, ptr %count3, align 8
  br label %for.cond

for.cond:
  %n.0 = phi i64 [ 0, %entry ], [ %inc, %for.inc ]
  %exitcond.not = icmp eq i64 %n.0, %2
  br i1 %exitcond.not, label %cleanup36, label %for.body

for.body:
  %arrayidx = getelementptr %struct.record, ptr %0, i64 %n.0
  %site = getelementptr inbounds i8, ptr %arrayidx, i64 32
  %3 = load i32, ptr %site, align 8
  %cmp4 = icmp sgt i32 %3, -1
  br i1 %cmp4, label %if.end, label %cleanup

if.end:
  %tobool.not.i = icmp ult i32 %3, 1073741824
  %sequence2.i.phi.trans.insert = getelementptr inbounds i8, ptr %arrayidx, i64 24
  %.pre = load i64, ptr %sequence2.i.phi.trans.insert, align 8
  %and1.i = and i64 %.pre, 4095
  %cond.i = select i1 %tobool.not.i, i64 1, i64 %and1.i
  %shr.i = lshr i64 %.pre, 33
  %end.i = getelementptr inbounds i8, ptr %arrayidx, i64 8
  %4 = load i64, ptr %end.i, align 8
  %5 = load i64, ptr %arrayidx, align 8
  %sub5.i.neg = sub nsw i64 1, %cond.i
  %mul.i.neg83 = mul nsw i64 %sub5.i.neg, %shr.i
  %.neg82 = sub i64 %4, %5
  %sub6.i = add i64 %.neg82, %mul.i.neg83
  %and = and i32 %3, 1073741823
  %idxprom = zext nneg i32 %and to i64
  %arrayidx7 = getelementptr %struct.spread, ptr %1, i64 %idxprom
  %6 = load i64, ptr %arrayidx7, align 8
  %. = call i64 @llvm.smin.i64(i64 %6, i64 %5)
  store i64 %., ptr %arrayidx7, align 8
  %high = getelementptr inbounds i8, ptr %arrayidx7, i64 8
  %7 = load i64, ptr %high, align 8
  %cond.i80 = call i64 @llvm.smax.i64(i64 %7, i64 %5)
  store i64 %cond.i80, ptr %high, align 8
  %end16 = getelementptr inbounds i8, ptr %arrayidx7, i64 16
  %8 = load i64, ptr %end16, align 8
  %cond.i79 = call i64 @llvm.smax.i64(i64 %8, i64 %4)
  store i64 %cond.i79, ptr %end16, align 8
  %longest = getelementptr inbounds i8, ptr %arrayidx7, i64 24
  %9 = load i64, ptr %longest, align 8
  %cond.i78 = call i64 @llvm.smax.i64(i64 %9, i64 %sub6.i)
  store i64 %cond.i78, ptr %longest, align 8
  %most = getelementptr inbounds i8, ptr %arrayidx7, i64 32
  %10 = load i64, ptr %most, align 8
  %cond.i77 = call i64 @llvm.smax.i64(i64 %10, i64 %cond.i)
  store i64 %cond.i77, ptr %most, align 8
  br i1 %tobool.not.i, label %for.inc, label %if.then24

if.then24:
  %step = getelementptr inbounds i8, ptr %arrayidx7, i64 40
  %11 = load i64, ptr %step, align 8
  %cmp25 = icmp eq i64 %11, -1
  %cmp28 = icmp eq i64 %11, %shr.i
  %or.cond = select i1 %cmp25, i1 true, i1 %cmp28
  %cond33 = select i1 %or.cond, i64 %shr.i, i64 -2
  store i64 %cond33, ptr %step, align 8
  br label %for.inc

cleanup:
  %synchronises = getelementptr inbounds i8, ptr %job, i64 24
  store i64 1, ptr %synchronises, align 8
  br label %cleanup36

for.inc:
  %inc = add i64 %n.0, 1
  br label %for.cond

cleanup36:
  ret void
}

define void @arrange(ptr %job, ptr %arena) {
entry:
  %0 = load ptr, ptr %job, align 8
  %sites2 = getelementptr inbounds i8, ptr %job, i64 16
  %1 = load ptr, ptr %sites2, align 8
  %taken = getelementptr inbounds i8, ptr %job, i64 24
  %2 = load ptr, ptr %taken, align 8
  %count3 = getelementptr inbounds i8, ptr %job, i64 8
  %3 = load i64, ptr %count3, align 8
  br label %for.cond

for.cond:
  %n.0 = phi i64 [ 0, %entry ], [ %inc, %for.inc ]
  %exitcond.not = icmp eq i64 %n.0, %3
  br i1 %exitcond.not, label %for.end, label %for.body

for.body:
  %arrayidx = getelementptr %struct.record, ptr %0, i64 %n.0
  %site4 = getelementptr inbounds i8, ptr %arrayidx, i64 32
  %4 = load i32, ptr %site4, align 8
  %and = and i32 %4, -1073741825
  %idxprom = zext i32 %and to i64
  %arrayidx5 = getelementptr %struct.bands, ptr %1, i64 %idxprom
  %band = getelementptr inbounds i8, ptr %arrayidx5, i64 8
  %5 = load i64, ptr %band, align 8
  %tobool.not = icmp eq i64 %5, 0
  br i1 %tobool.not, label %for.inc, label %if.end

if.end:
  %6 = load i64, ptr %arrayidx, align 8
  %7 = load i64, ptr %arrayidx5, align 8
  %sub = sub i64 %6, %7
  %div = udiv i64 %sub, %5
  %mul = mul i64 %div, %5
  %sub9.recomposed = urem i64 %sub, %5
  %column10 = getelementptr inbounds i8, ptr %arrayidx5, i64 24
  %8 = load i64, ptr %column10, align 8
  %div11 = udiv i64 %sub9.recomposed, %8
  %and.i = and i32 %4, 1073741824
  %tobool.not.i = icmp eq i32 %and.i, 0
  br i1 %tobool.not.i, label %shape_of.exit, label %cond.true.i

cond.true.i:
  %sequence.i = getelementptr inbounds i8, ptr %arrayidx, i64 24
  %9 = load i64, ptr %sequence.i, align 8
  %and1.i = and i64 %9, 4095
  br label %shape_of.exit

shape_of.exit:
  %cond.i = phi i64 [ %and1.i, %cond.true.i ], [ 1, %if.end ]
  %mul14 = mul i64 %div11, %8
  %cmp15.not = icmp eq i64 %mul14, %sub9.recomposed
  br i1 %cmp15.not, label %lor.lhs.false, label %cleanup37

lor.lhs.false:
  %end.i = getelementptr inbounds i8, ptr %arrayidx, i64 8
  %10 = load i64, ptr %end.i, align 8
  %sub5.i.neg = sub nsw i64 1, %cond.i
  %sequence2.i = getelementptr inbounds i8, ptr %arrayidx, i64 24
  %11 = load i64, ptr %sequence2.i, align 8
  %shr.i = lshr i64 %11, 33
  %mul.i.neg68 = mul nsw i64 %sub5.i.neg, %shr.i
  %.neg67 = sub i64 %sub9.recomposed, %6
  %sub6.i = add i64 %.neg67, %10
  %add = add i64 %sub6.i, %mul.i.neg68
  %step = getelementptr inbounds i8, ptr %arrayidx5, i64 16
  %12 = load i64, ptr %step, align 8
  %cmp16 = icmp ugt i64 %add, %12
  br i1 %cmp16, label %cleanup37, label %if.end18

if.end18:
  %first = getelementptr inbounds i8, ptr %arrayidx5, i64 40
  %13 = load i64, ptr %first, align 8
  %columns20 = getelementptr inbounds i8, ptr %arrayidx5, i64 32
  %14 = load i64, ptr %columns20, align 8
  %mul21 = mul i64 %14, %div
  %15 = getelementptr i8, ptr %2, i64 %13
  %16 = getelementptr i8, ptr %15, i64 %mul21
  %arrayidx24 = getelementptr i8, ptr %16, i64 %div11
  %17 = load i8, ptr %arrayidx24, align 1
  %tobool25.not = icmp eq i8 %17, 0
  br i1 %tobool25.not, label %if.end27, label %cleanup37

if.end27:
  store i8 1, ptr %arrayidx24, align 1
  br label %for.inc

for.inc:
  %inc = add i64 %n.0, 1
  br label %for.cond

for.end:
  %apart = getelementptr inbounds i8, ptr %job, i64 32
  store i64 1, ptr %apart, align 8
  br label %cleanup37

cleanup37:
  ret void
}

declare i64 @llvm.smax.i64(i64, i64)

declare i64 @llvm.smin.i64(i64, i64)
