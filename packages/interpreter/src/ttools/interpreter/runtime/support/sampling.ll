; Made of sampling.c by `python -m tools.native_code`; change that file.
; 8b33ba793f01dd19
%struct.taken = type { i64, i64, ptr }

@taken = internal global %struct.taken zeroinitializer, align 8
@PROGRAM_COUNTER = external constant i64, align 8

define ptr @taken_at() {
entry:
  ret ptr @taken
}

define void @take(i32 %number, ptr %information, ptr %context) {
entry:
  %0 = atomicrmw add ptr @taken, i64 1 monotonic, align 8
  %1 = load i64, ptr getelementptr inbounds (i8, ptr @taken, i64 8), align 8
  %cmp = icmp ult i64 %0, %1
  br i1 %cmp, label %if.then, label %if.end

if.then:
  %2 = load i64, ptr @PROGRAM_COUNTER, align 8
  %add.ptr = getelementptr i8, ptr %context, i64 %2
  %3 = load i64, ptr %add.ptr, align 8
  %4 = load ptr, ptr getelementptr inbounds (i8, ptr @taken, i64 16), align 8
  %arrayidx = getelementptr i64, ptr %4, i64 %0
  store i64 %3, ptr %arrayidx, align 8
  br label %if.end

if.end:
  ret void
}
