; See native_search.py. A job is: i64 next block, i64 blocks, i64 halves, ptr to the first, i64 the
; word, i64 whether it was found. Halves may stand at any address.
declare i64 @llvm.umin.i64(i64, i64)
declare <16 x i32> @llvm.umin.v16i32(<16 x i32>, <16 x i32>)
declare i32 @llvm.vector.reduce.umin.v16i32(<16 x i32>)

; ---- whether any of `count` halves is that of `value` which stands at its place: the low ones of
; words are compared with the low half, the high ones with the high half
define internal i1 @holds(ptr %memory, i64 %count, i64 %value) {
entry:
  %one = insertelement <8 x i64> poison, i64 %value, i64 0
  %wide = shufflevector <8 x i64> %one, <8 x i64> poison, <8 x i32> zeroinitializer
  %row = bitcast <8 x i64> %wide to <16 x i32>
  %whole = and i64 %count, -ROUND_WORDS
  br label %block
block:
  %first = phi i64 [ 0, %entry ], [ %beyond, %judge ]
  %more = icmp ult i64 %first, %whole
  %beyond = add i64 %first, ROUND_WORDS
  br i1 %more, label %rows, label %rest
; What differs from the value in no bit becomes 0, and so does the least of all.
rows:
  %n = phi i64 [ %first, %block ], [ %n1, %rows ]
  %least.a = phi <16 x i32> [ splat (i32 -1), %block ], [ %less.a, %rows ]
  %least.b = phi <16 x i32> [ splat (i32 -1), %block ], [ %less.b, %rows ]
  %a.at = getelementptr i32, ptr %memory, i64 %n
  %b.at = getelementptr i8, ptr %a.at, i64 64
  %a = load <16 x i32>, ptr %a.at, align 1
  %b = load <16 x i32>, ptr %b.at, align 1
  %a.differs = xor <16 x i32> %a, %row
  %b.differs = xor <16 x i32> %b, %row
  %less.a = call <16 x i32> @llvm.umin.v16i32(<16 x i32> %least.a, <16 x i32> %a.differs)
  %less.b = call <16 x i32> @llvm.umin.v16i32(<16 x i32> %least.b, <16 x i32> %b.differs)
  %n1 = add i64 %n, 32
  %go.on = icmp ult i64 %n1, %beyond
  br i1 %go.on, label %rows, label %judge
judge:
  %less = call <16 x i32> @llvm.umin.v16i32(<16 x i32> %less.a, <16 x i32> %less.b)
  %least = call i32 @llvm.vector.reduce.umin.v16i32(<16 x i32> %less)
  %found = icmp eq i32 %least, 0
  br i1 %found, label %yes, label %block
rest:
  %m = phi i64 [ %whole, %block ], [ %m1, %next ]
  %left = icmp ult i64 %m, %count
  br i1 %left, label %single, label %no
single:
  %at = getelementptr i32, ptr %memory, i64 %m
  %half = load i32, ptr %at, align 1
  %odd = and i64 %m, 1
  %shift = shl i64 %odd, 5
  %shifted = lshr i64 %value, %shift
  %own = trunc i64 %shifted to i32
  %same = icmp eq i32 %half, %own
  br i1 %same, label %yes, label %next
next:
  %m1 = add i64 %m, 1
  br label %rest
yes:
  ret i1 true
no:
  ret i1 false
}

define void @search(ptr %job, ptr %arena) {
entry:
  %blocks.at = getelementptr i8, ptr %job, i64 8
  %blocks = load i64, ptr %blocks.at
  %words.at = getelementptr i8, ptr %job, i64 16
  %words = load i64, ptr %words.at
  %memory.at = getelementptr i8, ptr %job, i64 24
  %memory = load ptr, ptr %memory.at
  %word.at = getelementptr i8, ptr %job, i64 32
  %word = load i64, ptr %word.at
  %found.at = getelementptr i8, ptr %job, i64 40
  br label %take
take:
  %block = atomicrmw add ptr %job, i64 1 monotonic
  %mine = icmp ult i64 %block, %blocks
  br i1 %mine, label %look, label %out
look:
  %first = mul i64 %block, BLOCK_WORDS
  %beyond = add i64 %first, BLOCK_WORDS
  %end = call i64 @llvm.umin.i64(i64 %beyond, i64 %words)
  %count = sub i64 %end, %first
  %at = getelementptr i32, ptr %memory, i64 %first
  %held = call i1 @holds(ptr %at, i64 %count, i64 %word)
  br i1 %held, label %stop, label %take
; The others need not look at what is left.
stop:
  store atomic i64 1, ptr %found.at monotonic, align 8
  store atomic i64 %blocks, ptr %job monotonic, align 8
  br label %out
out:
  ret void
}
