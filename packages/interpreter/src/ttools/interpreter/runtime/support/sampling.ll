; See sampling.py: words in CAPITALS stand for numbers. A signal's handler: takes note of where the
; thread that the signal interrupted was.
@taken = internal global { i64, i64, ptr } zeroinitializer

define ptr @taken_at() {
  ret ptr @taken
}

define void @take(i32 %signal, ptr %info, ptr %context) {
entry:
  %place = atomicrmw add ptr @taken, i64 1 monotonic
  %room.at = getelementptr i8, ptr @taken, i64 8
  %room = load i64, ptr %room.at
  %fits = icmp ult i64 %place, %room
  br i1 %fits, label %note, label %done
note:
  %counter.at = getelementptr i8, ptr %context, i64 PROGRAM_COUNTER
  %counter = load i64, ptr %counter.at
  %places.at = getelementptr i8, ptr @taken, i64 16
  %places = load ptr, ptr %places.at
  %cell = getelementptr i64, ptr %places, i64 %place
  store i64 %counter, ptr %cell
  br label %done
done:
  ret void
}
