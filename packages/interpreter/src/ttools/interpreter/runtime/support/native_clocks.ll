; Made of native_clocks.c by `python -m tools.native_code`; change that file.
; e4bfbc69f86e8f4d
%struct.step = type { i32, i32, i32, i32, i32, i32, i32, i32 }
%struct.question = type { i32, i32, i32 }

define void @replay(ptr %job, ptr %arena) {
entry:
  %lacks.i = alloca <64 x i32>, align 4
  %clocks1 = getelementptr inbounds i8, ptr %job, i64 16
  %0 = load ptr, ptr %clocks1, align 8
  %1 = load ptr, ptr %job, align 8
  %questions3 = getelementptr inbounds i8, ptr %job, i64 24
  %2 = load ptr, ptr %questions3, align 8
  %step_count4 = getelementptr inbounds i8, ptr %job, i64 8
  %3 = load i64, ptr %step_count4, align 8
  %question_count5 = getelementptr inbounds i8, ptr %job, i64 32
  %4 = load i64, ptr %question_count5, align 8
  %answers6 = getelementptr inbounds i8, ptr %job, i64 40
  %5 = load ptr, ptr %answers6, align 8
  %needs49 = getelementptr inbounds i8, ptr %job, i64 48
  br label %for.cond

for.cond:
  %n.0 = phi i64 [ 0, %entry ], [ %inc58, %for.end ]
  %asked.0 = phi i64 [ 0, %entry ], [ %asked.1, %for.end ]
  %exitcond.not = icmp eq i64 %n.0, %3
  br i1 %exitcond.not, label %for.cond61, label %for.body

for.body:
  %arrayidx = getelementptr %struct.step, ptr %1, i64 %n.0
  %6 = load i32, ptr %arrayidx, align 4
  %idxprom = sext i32 %6 to i64
  %arrayidx7 = getelementptr <64 x i32>, ptr %0, i64 %idxprom
  %7 = load <64 x i32>, ptr %arrayidx7, align 4
  %reads = getelementptr inbounds i8, ptr %arrayidx, i64 4
  %8 = load i32, ptr %reads, align 4
  %cmp8 = icmp sgt i32 %8, -1
  br i1 %cmp8, label %if.then, label %if.end

if.then:
  %idxprom10 = zext nneg i32 %8 to i64
  %arrayidx11 = getelementptr <64 x i32>, ptr %0, i64 %idxprom10
  %9 = load <64 x i32>, ptr %arrayidx11, align 4
  %elt.max = call <64 x i32> @llvm.smax.v64i32(<64 x i32> %7, <64 x i32> %9)
  store <64 x i32> %elt.max, ptr %arrayidx7, align 4
  br label %if.end

if.end:
  %known.0 = phi <64 x i32> [ %elt.max, %if.then ], [ %7, %for.body ]
  %writes = getelementptr inbounds i8, ptr %arrayidx, i64 8
  %10 = load i32, ptr %writes, align 4
  %cmp12 = icmp sgt i32 %10, -1
  br i1 %cmp12, label %if.then13, label %for.cond34.preheader

if.then13:
  %idxprom15 = zext nneg i32 %10 to i64
  %arrayidx16 = getelementptr <64 x i32>, ptr %0, i64 %idxprom15
  %keeps = getelementptr inbounds i8, ptr %arrayidx, i64 20
  %11 = load i32, ptr %keeps, align 4
  %tobool.not = icmp eq i32 %11, 0
  br i1 %tobool.not, label %cond.end, label %cond.true

cond.true:
  %12 = load <64 x i32>, ptr %arrayidx16, align 4
  %elt.max17 = call <64 x i32> @llvm.smax.v64i32(<64 x i32> %known.0, <64 x i32> %12)
  br label %cond.end

cond.end:
  %cond = phi <64 x i32> [ %elt.max17, %cond.true ], [ %known.0, %if.then13 ]
  store <64 x i32> %cond, ptr %arrayidx16, align 4
  %key = getelementptr inbounds i8, ptr %arrayidx, i64 12
  %13 = load i32, ptr %key, align 4
  %cmp18 = icmp sgt i32 %13, -1
  br i1 %cmp18, label %if.then19, label %if.end23

if.then19:
  %value = getelementptr inbounds i8, ptr %arrayidx, i64 16
  %14 = load i32, ptr %value, align 4
  %idxprom21 = zext nneg i32 %13 to i64
  %arrayidx22 = getelementptr i32, ptr %arrayidx16, i64 %idxprom21
  store i32 %14, ptr %arrayidx22, align 4
  br label %if.end23

if.end23:
  %takes = getelementptr inbounds i8, ptr %arrayidx, i64 24
  %15 = load i32, ptr %takes, align 4
  %tobool24.not = icmp eq i32 %15, 0
  br i1 %tobool24.not, label %if.end26, label %if.then25

if.then25:
  %16 = load <64 x i32>, ptr %arrayidx16, align 4
  store <64 x i32> %16, ptr %arrayidx7, align 4
  br label %if.end26

if.end26:
  %copies = getelementptr inbounds i8, ptr %arrayidx, i64 28
  %17 = load i32, ptr %copies, align 4
  %cmp27 = icmp sgt i32 %17, -1
  br i1 %cmp27, label %if.then28, label %for.cond34.preheader

if.then28:
  %18 = load <64 x i32>, ptr %arrayidx16, align 4
  %idxprom30 = zext nneg i32 %17 to i64
  %arrayidx31 = getelementptr <64 x i32>, ptr %0, i64 %idxprom30
  store <64 x i32> %18, ptr %arrayidx31, align 4
  br label %for.cond34.preheader

for.cond34.preheader:
  br label %for.cond34

for.cond34:
  %asked.1 = phi i64 [ %inc, %cond.end54 ], [ %asked.0, %for.cond34.preheader ]
  %cmp35 = icmp ult i64 %asked.1, %4
  br i1 %cmp35, label %land.rhs, label %for.end

land.rhs:
  %arrayidx36 = getelementptr %struct.question, ptr %2, i64 %asked.1
  %19 = load i32, ptr %arrayidx36, align 4
  %conv = sext i32 %19 to i64
  %cmp38 = icmp eq i64 %n.0, %conv
  br i1 %cmp38, label %for.body40, label %for.end

for.body40:
  %needs = getelementptr inbounds i8, ptr %arrayidx36, i64 8
  %20 = load i32, ptr %needs, align 4
  %cmp42 = icmp slt i32 %20, 0
  br i1 %cmp42, label %cond.true44, label %cond.false48

cond.true44:
  %key45 = getelementptr inbounds i8, ptr %arrayidx36, i64 4
  %21 = load i32, ptr %key45, align 4
  %idxprom46 = sext i32 %21 to i64
  %arrayidx47 = getelementptr i32, ptr %arrayidx7, i64 %idxprom46
  %22 = load i32, ptr %arrayidx47, align 4
  br label %cond.end54

cond.false48:
  %23 = load ptr, ptr %needs49, align 8
  %idxprom51 = zext nneg i32 %20 to i64
  %arrayidx52 = getelementptr <64 x i32>, ptr %23, i64 %idxprom51
  %key53 = getelementptr inbounds i8, ptr %arrayidx36, i64 4
  %24 = load i32, ptr %key53, align 4
  %25 = load <64 x i32>, ptr %arrayidx7, align 4
  %26 = load <64 x i32>, ptr %arrayidx52, align 4
  %cmp.i = icmp slt <64 x i32> %25, %26
  %sext.i = sext <64 x i1> %cmp.i to <64 x i32>
  store <64 x i32> %sext.i, ptr %lacks.i, align 4
  %cmp1.i = icmp sgt i32 %24, -1
  br i1 %cmp1.i, label %if.then.i, label %has_all.exit

if.then.i:
  %idxprom.i = zext nneg i32 %24 to i64
  %arrayidx.i = getelementptr i32, ptr %lacks.i, i64 %idxprom.i
  store i32 0, ptr %arrayidx.i, align 4
  %.pre = load <64 x i32>, ptr %lacks.i, align 4
  br label %has_all.exit

has_all.exit:
  %27 = phi <64 x i32> [ %sext.i, %cond.false48 ], [ %.pre, %if.then.i ]
  %rdx.or.i = call i32 @llvm.vector.reduce.or.v64i32(<64 x i32> %27)
  %tobool.not.i = icmp eq i32 %rdx.or.i, 0
  %lnot.ext.i = zext i1 %tobool.not.i to i32
  br label %cond.end54

cond.end54:
  %cond55 = phi i32 [ %22, %cond.true44 ], [ %lnot.ext.i, %has_all.exit ]
  %arrayidx56 = getelementptr i32, ptr %5, i64 %asked.1
  store i32 %cond55, ptr %arrayidx56, align 4
  %inc = add nuw i64 %asked.1, 1
  br label %for.cond34

for.end:
  %inc58 = add i64 %n.0, 1
  br label %for.cond

for.cond61:
  %n60.0 = phi i64 [ %inc73, %clear.exit ], [ 0, %for.cond ]
  %exitcond147.not = icmp eq i64 %n60.0, %3
  br i1 %exitcond147.not, label %for.cond.cleanup64, label %for.body65

for.cond.cleanup64:
  ret void

for.body65:
  %arrayidx66 = getelementptr %struct.step, ptr %1, i64 %n60.0
  %28 = load i32, ptr %arrayidx66, align 4
  %cmp.i142 = icmp sgt i32 %28, -1
  br i1 %cmp.i142, label %if.then.i143, label %clear.exit146

if.then.i143:
  %idxprom.i144 = zext nneg i32 %28 to i64
  %arrayidx.i145 = getelementptr <64 x i32>, ptr %0, i64 %idxprom.i144
  store <64 x i32> zeroinitializer, ptr %arrayidx.i145, align 4
  br label %clear.exit146

clear.exit146:
  %writes69 = getelementptr inbounds i8, ptr %arrayidx66, i64 8
  %29 = load i32, ptr %writes69, align 4
  %cmp.i137 = icmp sgt i32 %29, -1
  br i1 %cmp.i137, label %if.then.i138, label %clear.exit141

if.then.i138:
  %idxprom.i139 = zext nneg i32 %29 to i64
  %arrayidx.i140 = getelementptr <64 x i32>, ptr %0, i64 %idxprom.i139
  store <64 x i32> zeroinitializer, ptr %arrayidx.i140, align 4
  br label %clear.exit141

clear.exit141:
  %copies71 = getelementptr inbounds i8, ptr %arrayidx66, i64 28
  %30 = load i32, ptr %copies71, align 4
  %cmp.i133 = icmp sgt i32 %30, -1
  br i1 %cmp.i133, label %if.then.i134, label %clear.exit

if.then.i134:
  %idxprom.i135 = zext nneg i32 %30 to i64
  %arrayidx.i136 = getelementptr <64 x i32>, ptr %0, i64 %idxprom.i135
  store <64 x i32> zeroinitializer, ptr %arrayidx.i136, align 4
  br label %clear.exit

clear.exit:
  %inc73 = add i64 %n60.0, 1
  br label %for.cond61
}

declare <64 x i32> @llvm.smax.v64i32(<64 x i32>, <64 x i32>)

declare i32 @llvm.vector.reduce.or.v64i32(<64 x i32>)
