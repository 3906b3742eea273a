; See native_clocks.py. A clock is WIDTH numbers of 32 bits, none negative.
declare <WIDTH x i32> @llvm.smax.vWIDTHi32(<WIDTH x i32>, <WIDTH x i32>)

; ---- a job: ptr to the steps, i64 steps, ptr to the clocks, ptr to the questions, i64 questions, ptr
; to an i32 for each answer. Of a step, each an i32: the clock of its program, the clock that it reads
; and the one that it writes (-1: none), the place in a clock that it sets (-1: none) and to what,
; whether the clock that it writes keeps what it held, whether its program then knows all of that
; clock, and the clock to which that is copied (-1: none). Of a question: i32 step, i32 place. All
; clocks that the steps name are zero before, and zero again at the end.
define void @replay(ptr %job, ptr %arena) {
entry:
  %steps = load ptr, ptr %job
  %count.at = getelementptr i8, ptr %job, i64 8
  %count = load i64, ptr %count.at
  %clocks.at = getelementptr i8, ptr %job, i64 16
  %clocks = load ptr, ptr %clocks.at
  %questions.at = getelementptr i8, ptr %job, i64 24
  %questions = load ptr, ptr %questions.at
  %asked.at = getelementptr i8, ptr %job, i64 32
  %asked = load i64, ptr %asked.at
  %answers.at = getelementptr i8, ptr %job, i64 40
  %answers = load ptr, ptr %answers.at
  br label %step
step:
  %n = phi i64 [ 0, %entry ], [ %n1, %next ]
  %q = phi i64 [ 0, %entry ], [ %q.now, %next ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %read, label %clean
read:
  %place = mul i64 %n, STEP_BYTES
  %at = getelementptr i8, ptr %steps, i64 %place
  %own = load i32, ptr %at
  %own.wide = sext i32 %own to i64
  %own.at = getelementptr <WIDTH x i32>, ptr %clocks, i64 %own.wide
  %known = load <WIDTH x i32>, ptr %own.at, align 4
  %source.at = getelementptr i8, ptr %at, i64 4
  %source = load i32, ptr %source.at
  %acquires = icmp sge i32 %source, 0
  br i1 %acquires, label %acquire, label %acquired
acquire:
  %source.wide = sext i32 %source to i64
  %news.at = getelementptr <WIDTH x i32>, ptr %clocks, i64 %source.wide
  %news = load <WIDTH x i32>, ptr %news.at, align 4
  %learned = call <WIDTH x i32> @llvm.smax.vWIDTHi32(<WIDTH x i32> %known, <WIDTH x i32> %news)
  store <WIDTH x i32> %learned, ptr %own.at, align 4
  br label %acquired
acquired:
  %mine = phi <WIDTH x i32> [ %known, %read ], [ %learned, %acquire ]
  %target.at = getelementptr i8, ptr %at, i64 8
  %target = load i32, ptr %target.at
  %releases = icmp sge i32 %target, 0
  br i1 %releases, label %release, label %answer
release:
  %target.wide = sext i32 %target to i64
  %word.at = getelementptr <WIDTH x i32>, ptr %clocks, i64 %target.wide
  %keeps.at = getelementptr i8, ptr %at, i64 20
  %keeps32 = load i32, ptr %keeps.at
  %keeps = icmp ne i32 %keeps32, 0
  br i1 %keeps, label %continue, label %published
continue:
  %held = load <WIDTH x i32>, ptr %word.at, align 4
  %both = call <WIDTH x i32> @llvm.smax.vWIDTHi32(<WIDTH x i32> %mine, <WIDTH x i32> %held)
  br label %published
published:
  %word = phi <WIDTH x i32> [ %mine, %release ], [ %both, %continue ]
  store <WIDTH x i32> %word, ptr %word.at, align 4
  %key.at = getelementptr i8, ptr %at, i64 12
  %key = load i32, ptr %key.at
  %marked = icmp sge i32 %key, 0
  br i1 %marked, label %mark, label %copy
mark:
  %key.wide = sext i32 %key to i64
  %value.at = getelementptr i8, ptr %at, i64 16
  %value = load i32, ptr %value.at
  %mark.at = getelementptr i32, ptr %word.at, i64 %key.wide
  store i32 %value, ptr %mark.at
  br label %copy
copy:
  %takes.at = getelementptr i8, ptr %at, i64 24
  %takes32 = load i32, ptr %takes.at
  %takes = icmp ne i32 %takes32, 0
  br i1 %takes, label %take, label %keep
take:
  %taken = load <WIDTH x i32>, ptr %word.at, align 4
  store <WIDTH x i32> %taken, ptr %own.at, align 4
  br label %keep
keep:
  %copy.at = getelementptr i8, ptr %at, i64 28
  %copied = load i32, ptr %copy.at
  %is.copied = icmp sge i32 %copied, 0
  br i1 %is.copied, label %store, label %answer
store:
  %copied.wide = sext i32 %copied to i64
  %kept.at = getelementptr <WIDTH x i32>, ptr %clocks, i64 %copied.wide
  %kept = load <WIDTH x i32>, ptr %word.at, align 4
  store <WIDTH x i32> %kept, ptr %kept.at, align 4
  br label %answer
answer:
  %q.now = phi i64 [ %q, %acquired ], [ %q, %keep ], [ %q, %store ], [ %q1, %tell ]
  %open = icmp ult i64 %q.now, %asked
  br i1 %open, label %look, label %next
look:
  %question.place = mul i64 %q.now, 8
  %question = getelementptr i8, ptr %questions, i64 %question.place
  %when = load i32, ptr %question
  %when.wide = sext i32 %when to i64
  %now = icmp eq i64 %when.wide, %n
  br i1 %now, label %tell, label %next
tell:
  %which.at = getelementptr i8, ptr %question, i64 4
  %which = load i32, ptr %which.at
  %which.wide = sext i32 %which to i64
  %told.at = getelementptr i32, ptr %own.at, i64 %which.wide
  %told = load i32, ptr %told.at
  %answer.at = getelementptr i32, ptr %answers, i64 %q.now
  store i32 %told, ptr %answer.at
  %q1 = add i64 %q.now, 1
  br label %answer
next:
  %n1 = add i64 %n, 1
  br label %step
clean:
  %m = phi i64 [ 0, %step ], [ %m1, %cleaned ]
  %left = icmp ult i64 %m, %count
  br i1 %left, label %wipe, label %out
wipe:
  %old.place = mul i64 %m, STEP_BYTES
  %old = getelementptr i8, ptr %steps, i64 %old.place
  %first = load i32, ptr %old
  call void @wipe(ptr %clocks, i32 %first)
  %second.at = getelementptr i8, ptr %old, i64 8
  %second = load i32, ptr %second.at
  call void @wipe(ptr %clocks, i32 %second)
  %third.at = getelementptr i8, ptr %old, i64 28
  %third = load i32, ptr %third.at
  call void @wipe(ptr %clocks, i32 %third)
  br label %cleaned
cleaned:
  %m1 = add i64 %m, 1
  br label %clean
out:
  ret void
}

; ---- makes a clock zero
define internal void @wipe(ptr %clocks, i32 %which) alwaysinline {
entry:
  %some = icmp sge i32 %which, 0
  br i1 %some, label %zero, label %done
zero:
  %wide = sext i32 %which to i64
  %at = getelementptr <WIDTH x i32>, ptr %clocks, i64 %wide
  store <WIDTH x i32> zeroinitializer, ptr %at, align 4
  br label %done
done:
  ret void
}
