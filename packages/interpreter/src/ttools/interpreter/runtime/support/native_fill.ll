; See native_fill.py. A job is: i64 next block, i64 blocks, i64 words, ptr to the first, i64 the word.
declare i64 @llvm.umin.i64(i64, i64)

define void @fill(ptr %job, ptr %arena) {
entry:
  %blocks.at = getelementptr i8, ptr %job, i64 8
  %blocks = load i64, ptr %blocks.at
  %words.at = getelementptr i8, ptr %job, i64 16
  %words = load i64, ptr %words.at
  %memory.at = getelementptr i8, ptr %job, i64 24
  %memory = load ptr, ptr %memory.at
  %word.at = getelementptr i8, ptr %job, i64 32
  %word = load i64, ptr %word.at
  %one = insertelement <8 x i64> poison, i64 %word, i64 0
  %row = shufflevector <8 x i64> %one, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %take
take:
  %block = atomicrmw add ptr %job, i64 1 monotonic
  %mine = icmp ult i64 %block, %blocks
  br i1 %mine, label %begin, label %out
begin:
  %first = mul i64 %block, BLOCK_WORDS
  %beyond = add i64 %first, BLOCK_WORDS
  %end = call i64 @llvm.umin.i64(i64 %beyond, i64 %words)
  %count = sub i64 %end, %first
  %whole = and i64 %count, -8
  %rows.end = add i64 %first, %whole
  br label %rows
rows:
  %n = phi i64 [ %first, %begin ], [ %n1, %store ]
  %more = icmp ult i64 %n, %rows.end
  br i1 %more, label %store, label %rest
store:
  %at = getelementptr i64, ptr %memory, i64 %n
  store <8 x i64> %row, ptr %at, align 8
  %n1 = add i64 %n, 8
  br label %rows
rest:
  %m = phi i64 [ %rows.end, %rows ], [ %m1, %single ]
  %left = icmp ult i64 %m, %end
  br i1 %left, label %single, label %take
single:
  %single.at = getelementptr i64, ptr %memory, i64 %m
  store volatile i64 %word, ptr %single.at, align 8
  %m1 = add i64 %m, 1
  br label %rest
out:
  ret void
}
