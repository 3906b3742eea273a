; See native_tiles.py. Of a record: i64 start, i64 end, i64 seq at 24, i32 site at 32.
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; ---- a job: ptr to the records, i64 records, ptr to a row for each site, i64 whether any record
; synchronises. Of a row: i64 lowest start, highest start, highest end, bytes of the longest run, most
; runs, and the step between them, which is -1 if there is none, and -2 if there are several.
define void @survey(ptr %job, ptr %arena) {
entry:
  %log = load ptr, ptr %job
  %count.at = getelementptr i8, ptr %job, i64 8
  %count = load i64, ptr %count.at
  %rows.at = getelementptr i8, ptr %job, i64 16
  %rows = load ptr, ptr %rows.at
  br label %record
record:
  %n = phi i64 [ 0, %entry ], [ %n1, %next ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %look, label %out
look:
  %place = mul i64 %n, RECORD_BYTES
  %at = getelementptr i8, ptr %log, i64 %place
  %site.at = getelementptr i8, ptr %at, i64 32
  %site = load i32, ptr %site.at
  %synchronises = icmp slt i32 %site, 0
  br i1 %synchronises, label %tell, label %take
take:
  %start = load i64, ptr %at
  %end.at = getelementptr i8, ptr %at, i64 8
  %end = load i64, ptr %end.at
  %flag = and i32 %site, REPEATED
  %index = xor i32 %site, %flag
  %repeats = icmp ne i32 %flag, 0
  %shape = call { i64, i64, i64 } @shape(ptr %at, i1 %repeats)
  %runs = extractvalue { i64, i64, i64 } %shape, 0
  %step = extractvalue { i64, i64, i64 } %shape, 1
  %run = extractvalue { i64, i64, i64 } %shape, 2
  %wide = zext i32 %index to i64
  %row.place = mul i64 %wide, ROW_BYTES
  %low.at = getelementptr i8, ptr %rows, i64 %row.place
  %low = load i64, ptr %low.at
  %low1 = call i64 @llvm.smin.i64(i64 %low, i64 %start)
  store i64 %low1, ptr %low.at
  %high.at = getelementptr i8, ptr %low.at, i64 8
  %high = load i64, ptr %high.at
  %high1 = call i64 @llvm.smax.i64(i64 %high, i64 %start)
  store i64 %high1, ptr %high.at
  %beyond.at = getelementptr i8, ptr %low.at, i64 16
  %beyond = load i64, ptr %beyond.at
  %beyond1 = call i64 @llvm.smax.i64(i64 %beyond, i64 %end)
  store i64 %beyond1, ptr %beyond.at
  %longest.at = getelementptr i8, ptr %low.at, i64 24
  %longest = load i64, ptr %longest.at
  %longest1 = call i64 @llvm.smax.i64(i64 %longest, i64 %run)
  store i64 %longest1, ptr %longest.at
  %most.at = getelementptr i8, ptr %low.at, i64 32
  %most = load i64, ptr %most.at
  %most1 = call i64 @llvm.smax.i64(i64 %most, i64 %runs)
  store i64 %most1, ptr %most.at
  br i1 %repeats, label %compare, label %next
compare:
  %known.at = getelementptr i8, ptr %low.at, i64 40
  %known = load i64, ptr %known.at
  %none = icmp eq i64 %known, -1
  %same = icmp eq i64 %known, %step
  %fits = or i1 %none, %same
  %step1 = select i1 %fits, i64 %step, i64 -2
  store i64 %step1, ptr %known.at
  br label %next
next:
  %n1 = add i64 %n, 1
  br label %record
tell:
  %tell.at = getelementptr i8, ptr %job, i64 24
  store i64 1, ptr %tell.at
  br label %out
out:
  ret void
}

; ---- the runs of a record, the step between them, and the bytes of one
define internal { i64, i64, i64 } @shape(ptr %at, i1 %repeats) alwaysinline {
  %start = load i64, ptr %at
  %end.at = getelementptr i8, ptr %at, i64 8
  %end = load i64, ptr %end.at
  %word.at = getelementptr i8, ptr %at, i64 24
  %word = load i64, ptr %word.at
  %span = sub i64 %end, %start
  %many = and i64 %word, COUNT_MASK
  %runs = select i1 %repeats, i64 %many, i64 1
  %step = lshr i64 %word, STRIDE_SHIFT
  %others = sub i64 %runs, 1
  %reach = mul i64 %others, %step
  %run = sub i64 %span, %reach
  %a = insertvalue { i64, i64, i64 } poison, i64 %runs, 0
  %b = insertvalue { i64, i64, i64 } %a, i64 %step, 1
  %c = insertvalue { i64, i64, i64 } %b, i64 %run, 2
  ret { i64, i64, i64 } %c
}

; ---- a job: ptr to the records, i64 records, ptr to a row for each site, ptr to a byte for each place,
; i64 whether no two records came to lie in one place. Of a row: i64 lowest start, bytes of a band (0
; for sites that are left out), of a step and of a column, columns of a band, the first place.
define void @arrange(ptr %job, ptr %arena) {
entry:
  %log = load ptr, ptr %job
  %count.at = getelementptr i8, ptr %job, i64 8
  %count = load i64, ptr %count.at
  %rows.at = getelementptr i8, ptr %job, i64 16
  %rows = load ptr, ptr %rows.at
  %taken.at = getelementptr i8, ptr %job, i64 24
  %taken = load ptr, ptr %taken.at
  br label %record
record:
  %n = phi i64 [ 0, %entry ], [ %n1, %next ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %look, label %tell
look:
  %place = mul i64 %n, RECORD_BYTES
  %at = getelementptr i8, ptr %log, i64 %place
  %site.at = getelementptr i8, ptr %at, i64 32
  %site = load i32, ptr %site.at
  %flag = and i32 %site, REPEATED
  %index = xor i32 %site, %flag
  %wide = zext i32 %index to i64
  %row.place = mul i64 %wide, ROW_BYTES
  %row = getelementptr i8, ptr %rows, i64 %row.place
  %band.at = getelementptr i8, ptr %row, i64 8
  %band = load i64, ptr %band.at
  %left.out = icmp eq i64 %band, 0
  br i1 %left.out, label %next, label %divide
divide:
  %repeats = icmp ne i32 %flag, 0
  %shape = call { i64, i64, i64 } @shape(ptr %at, i1 %repeats)
  %run = extractvalue { i64, i64, i64 } %shape, 2
  %start = load i64, ptr %at
  %low = load i64, ptr %row
  %step.at = getelementptr i8, ptr %row, i64 16
  %step = load i64, ptr %step.at
  %column.at = getelementptr i8, ptr %row, i64 24
  %column = load i64, ptr %column.at
  %columns.at = getelementptr i8, ptr %row, i64 32
  %columns = load i64, ptr %columns.at
  %first.at = getelementptr i8, ptr %row, i64 40
  %first = load i64, ptr %first.at
  %offset = sub i64 %start, %low
  %bands = udiv i64 %offset, %band
  %before = mul i64 %bands, %band
  %inside = sub i64 %offset, %before
  %which = udiv i64 %inside, %column
  %begins = mul i64 %which, %column
  %exact = icmp eq i64 %begins, %inside
  %stops = add i64 %inside, %run
  %fits = icmp ule i64 %stops, %step
  %good = and i1 %exact, %fits
  br i1 %good, label %mark, label %out
mark:
  %above = mul i64 %bands, %columns
  %in.band = add i64 %above, %which
  %cell = add i64 %first, %in.band
  %cell.at = getelementptr i8, ptr %taken, i64 %cell
  %held = load i8, ptr %cell.at
  %free = icmp eq i8 %held, 0
  store i8 1, ptr %cell.at
  br i1 %free, label %next, label %out
next:
  %n1 = add i64 %n, 1
  br label %record
tell:
  %apart.at = getelementptr i8, ptr %job, i64 32
  store i64 1, ptr %apart.at
  br label %out
out:
  ret void
}
