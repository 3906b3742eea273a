; See native_offcuts.py. A job is: ptr to malloc, ptr to free, ptr to the memory, ptr to its end. Both
; are called by address: LLVM takes calls of malloc that it knows for ones that may be left out.

define void @give_back(ptr %job, ptr %arena) {
entry:
  %taken = alloca [BLOCKS x i64], align 8
  %malloc = load ptr, ptr %job
  %free.at = getelementptr i8, ptr %job, i64 8
  %free = load ptr, ptr %free.at
  %start.at = getelementptr i8, ptr %job, i64 16
  %start = load i64, ptr %start.at
  %end.at = getelementptr i8, ptr %job, i64 24
  %end = load i64, ptr %end.at
  %before = sub i64 %start, FARTHEST
  %behind = sub i64 %end, %before
  %span = add i64 %behind, FARTHEST
  br label %size
size:
  %bytes = phi i64 [ SMALLEST, %entry ], [ %bytes1, %next.size ]
  %in.range = icmp ule i64 %bytes, LARGEST
  br i1 %in.range, label %take, label %out
take:
  %n = phi i64 [ 0, %size ], [ %n1, %take ]
  %block = call ptr %malloc(i64 %bytes)
  %block.word = ptrtoint ptr %block to i64
  %slot = getelementptr [BLOCKS x i64], ptr %taken, i64 0, i64 %n
  store volatile i64 %block.word, ptr %slot
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, BLOCKS
  br i1 %more, label %take, label %pass
; First those from elsewhere, which fill the cache, then those that lie beside the memory.
pass:
  %beside = phi i1 [ false, %take ], [ true, %next.pass ]
  br label %look
look:
  %m = phi i64 [ 0, %pass ], [ %m1, %next ]
  %slot.at = getelementptr [BLOCKS x i64], ptr %taken, i64 0, i64 %m
  %word = load volatile i64, ptr %slot.at
  %distance = sub i64 %word, %before
  %near = icmp ult i64 %distance, %span
  %mine = icmp eq i1 %near, %beside
  br i1 %mine, label %give, label %next
give:
  %given = inttoptr i64 %word to ptr
  call void %free(ptr %given)
  br label %next
next:
  %m1 = add i64 %m, 1
  %left = icmp ult i64 %m1, BLOCKS
  br i1 %left, label %look, label %next.pass
next.pass:
  br i1 %beside, label %next.size, label %pass
next.size:
  %bytes1 = add i64 %bytes, STEP
  br label %size
out:
  ret void
}
