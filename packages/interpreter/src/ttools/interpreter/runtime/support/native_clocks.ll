; Made of native_clocks.c by `python -m tools.native_code`; change that file.
; dee6783729d7a425
%struct.step = type { i32, i32, i32, i32, i32, i32, i32, i32 }
%struct.question = type { i32, i32 }

define void @replay(ptr %job, ptr %arena) {
entry:
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
  br label %for.cond

for.cond:
  %n.0 = phi i64 [ 0, %entry ], [ %inc47, %for.end ]
  %asked.0 = phi i64 [ 0, %entry ], [ %asked.1, %for.end ]
  %exitcond.not = icmp eq i64 %n.0, %3
  br i1 %exitcond.not, label %for.cond50, label %for.body

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
  %asked.1 = phi i64 [ %inc, %for.body40 ], [ %asked.0, %for.cond34.preheader ]
  %cmp35 = icmp ult i64 %asked.1, %4
  br i1 %cmp35, label %land.rhs, label %for.end

land.rhs:
  %arrayidx36 = getelementptr %struct.question, ptr %2, i64 %asked.1
  %19 = load i32, ptr %arrayidx36, align 4
  %conv = sext i32 %19 to i64
  %cmp38 = icmp eq i64 %n.0, %conv
  br i1 %cmp38, label %for.body40, label %for.end

for.body40:
  %key42 = getelementptr inbounds i8, ptr %arrayidx36, i64 4
  %20 = load i32, ptr %key42, align 4
  %idxprom43 = sext i32 %20 to i64
  %arrayidx44 = getelementptr i32, ptr %arrayidx7, i64 %idxprom43
  %21 = load i32, ptr %arrayidx44, align 4
  %arrayidx45 = getelementptr i32, ptr %5, i64 %asked.1
  store i32 %21, ptr %arrayidx45, align 4
  %inc = add nuw i64 %asked.1, 1
  br label %for.cond34

for.end:
  %inc47 = add i64 %n.0, 1
  br label %for.cond

for.cond50:
  %n49.0 = phi i64 [ %inc62, %clear.exit ], [ 0, %for.cond ]
  %exitcond126.not = icmp eq i64 %n49.0, %3
  br i1 %exitcond126.not, label %for.cond.cleanup53, label %for.body54

for.cond.cleanup53:
  ret void

for.body54:
  %arrayidx55 = getelementptr %struct.step, ptr %1, i64 %n49.0
  %22 = load i32, ptr %arrayidx55, align 4
  %cmp.i121 = icmp sgt i32 %22, -1
  br i1 %cmp.i121, label %if.then.i122, label %clear.exit125

if.then.i122:
  %idxprom.i123 = zext nneg i32 %22 to i64
  %arrayidx.i124 = getelementptr <64 x i32>, ptr %0, i64 %idxprom.i123
  store <64 x i32> zeroinitializer, ptr %arrayidx.i124, align 4
  br label %clear.exit125

clear.exit125:
  %writes58 = getelementptr inbounds i8, ptr %arrayidx55, i64 8
  %23 = load i32, ptr %writes58, align 4
  %cmp.i116 = icmp sgt i32 %23, -1
  br i1 %cmp.i116, label %if.then.i117, label %clear.exit120

if.then.i117:
  %idxprom.i118 = zext nneg i32 %23 to i64
  %arrayidx.i119 = getelementptr <64 x i32>, ptr %0, i64 %idxprom.i118
  store <64 x i32> zeroinitializer, ptr %arrayidx.i119, align 4
  br label %clear.exit120

clear.exit120:
  %copies60 = getelementptr inbounds i8, ptr %arrayidx55, i64 28
  %24 = load i32, ptr %copies60, align 4
  %cmp.i = icmp sgt i32 %24, -1
  br i1 %cmp.i, label %if.then.i, label %clear.exit

if.then.i:
  %idxprom.i = zext nneg i32 %24 to i64
  %arrayidx.i = getelementptr <64 x i32>, ptr %0, i64 %idxprom.i
  store <64 x i32> zeroinitializer, ptr %arrayidx.i, align 4
  br label %clear.exit

clear.exit:
  %inc62 = add i64 %n49.0, 1
  br label %for.cond50
}

declare <64 x i32> @llvm.smax.v64i32(<64 x i32>, <64 x i32>)
