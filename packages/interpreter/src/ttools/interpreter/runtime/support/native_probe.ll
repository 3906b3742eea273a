; See native_probe.py: words in CAPITALS_LIKE_THESE stand for numbers. Native code calls these where
; it observes itself, on cold paths.
declare i64 @llvm.usub.sat.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.ctpop.i64(i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @sched_yield()

define internal ptr @open_record(ptr %probe, i32 %site) alwaysinline {
  %wide = sext i32 %site to i64
  %place = mul i64 %wide, OPEN_BYTES
  %offset = add i64 %place, PROBE_OPEN
  %record = getelementptr i8, ptr %probe, i64 %offset
  ret ptr %record
}

define internal ptr @site_entry(ptr %monitor, i32 %site) alwaysinline {
  %sites.at = getelementptr i8, ptr %monitor, i64 MONITOR_SITES
  %sites = load ptr, ptr %sites.at
  %wide = sext i32 %site to i64
  %place = mul i64 %wide, SITE_BYTES
  %entry = getelementptr i8, ptr %sites, i64 %place
  ret ptr %entry
}

; ---- whether the element at an offset from a view's first byte belongs to the view
define internal i1 @is_member(ptr %dims, i64 %offset) {
entry:
  %count = load i64, ptr %dims
  %item.at = getelementptr i8, ptr %dims, i64 8
  %item = load i64, ptr %item.at
  %listed = icmp slt i64 %count, 0
  br i1 %listed, label %bitmap, label %next
bitmap:
  %bits.at = getelementptr i8, ptr %dims, i64 16
  %bits = load ptr, ptr %bits.at
  %index = udiv i64 %offset, %item
  %byte.at = getelementptr i8, ptr %bits, i64 %index
  %byte = load i8, ptr %byte.at
  %set = icmp ne i8 %byte, 0
  ret i1 %set
next:
  %n = phi i64 [ 0, %entry ], [ %n1, %divide ]
  %rest = phi i64 [ %offset, %entry ], [ %rest1, %divide ]
  %more = icmp slt i64 %n, %count
  br i1 %more, label %divide, label %done
divide:
  %row = mul i64 %n, 16
  %row16 = add i64 %row, 16
  %stride.at = getelementptr i8, ptr %dims, i64 %row16
  %stride = load i64, ptr %stride.at
  %last.at = getelementptr i8, ptr %stride.at, i64 8
  %last = load i64, ptr %last.at
  %quotient = udiv i64 %rest, %stride
  %steps = call i64 @llvm.umin.i64(i64 %quotient, i64 %last)
  %covered = mul i64 %steps, %stride
  %rest1 = sub i64 %rest, %covered
  %n1 = add i64 %n, 1
  br label %next
done:
  %within = icmp ult i64 %rest, %item
  ret i1 %within
}

; ---- judges the active lanes of one access; returns those that may touch memory
define i64 @check_lanes(ptr %probe, i32 %site, ptr %payload, i64 %bits) {
entry:
  %question = alloca [4 x i64], align 8
  %monitor = load ptr, ptr %probe
  %entry.at = call ptr @site_entry(ptr %monitor, i32 %site)
  %size32 = load i32, ptr %entry.at
  %size = zext i32 %size32 to i64
  %below = sub i64 %size, 1
  %lanes.at = getelementptr i8, ptr %entry.at, i64 4
  %lanes = load i32, ptr %lanes.at
  %region.at = getelementptr i8, ptr %entry.at, i64 8
  %region = load i32, ptr %region.at
  %regions.at = getelementptr i8, ptr %monitor, i64 MONITOR_REGIONS
  %regions = load ptr, ptr %regions.at
  %wide = sext i32 %region to i64
  %place = mul i64 %wide, REGION_BYTES
  %known = icmp sge i32 %region, 0
  %r = getelementptr i8, ptr %regions, i64 %place
  %record = call ptr @open_record(ptr %probe, i32 %site)
  %cache.lo = getelementptr i8, ptr %record, i64 48
  %cache.bytes = getelementptr i8, ptr %record, i64 56
  br label %lane
lane:
  %l = phi i32 [ 0, %entry ], [ %l1, %next ]
  %storage = phi i64 [ 0, %entry ], [ %storage1, %next ]
  %view = phi i64 [ 0, %entry ], [ %view1, %next ]
  %odd = phi i64 [ 0, %entry ], [ %odd1, %next ]
  %allowed = phi i64 [ 0, %entry ], [ %allowed1, %next ]
  %more = icmp ult i32 %l, %lanes
  br i1 %more, label %test, label %done
test:
  %l64 = zext i32 %l to i64
  %bit = shl i64 1, %l64
  %hit = and i64 %bits, %bit
  %active = icmp ne i64 %hit, 0
  br i1 %active, label %look, label %next
look:
  %slot = shl i64 %l64, 3
  %slot1 = add i64 %slot, PAYLOAD_ADDRESSES
  %address.at = getelementptr i8, ptr %payload, i64 %slot1
  %a = load i64, ptr %address.at
  %low = and i64 %a, %below
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %where, label %misaligned
where:
  br i1 %known, label %own, label %search
own:
  %lo = load i64, ptr %r
  %hi.at = getelementptr i8, ptr %r, i64 8
  %hi = load i64, ptr %hi.at
  %span = sub i64 %hi, %lo
  %room = call i64 @llvm.usub.sat.i64(i64 %span, i64 %below)
  %delta = sub i64 %a, %lo
  %inside = icmp ult i64 %delta, %room
  br i1 %inside, label %stored, label %outside
stored:
  %mode.at = getelementptr i8, ptr %r, i64 56
  %mode = load i64, ptr %mode.at
  %free = icmp eq i64 %mode, 0
  br i1 %free, label %fine, label %span.of.view
span.of.view:
  %vlo.at = getelementptr i8, ptr %r, i64 32
  %vlo = load i64, ptr %vlo.at
  %vhi.at = getelementptr i8, ptr %r, i64 40
  %vhi = load i64, ptr %vhi.at
  %vspan = sub i64 %vhi, %vlo
  %vroom = call i64 @llvm.usub.sat.i64(i64 %vspan, i64 %below)
  %vdelta = sub i64 %a, %vlo
  %vinside = icmp ult i64 %vdelta, %vroom
  br i1 %vinside, label %gaps, label %beside
gaps:
  %dims.at = getelementptr i8, ptr %r, i64 48
  %dims = load ptr, ptr %dims.at
  %dense = icmp eq ptr %dims, null
  br i1 %dense, label %fine, label %member
member:
  %is.member = call i1 @is_member(ptr %dims, i64 %vdelta)
  br i1 %is.member, label %fine, label %beside
search:
  %count.at = getelementptr i8, ptr %monitor, i64 MONITOR_ALLOCATION_COUNT
  %count = load i64, ptr %count.at
  %table.at = getelementptr i8, ptr %monitor, i64 MONITOR_ALLOCATIONS
  %table = load ptr, ptr %table.at
  br label %row
row:
  %k = phi i64 [ 0, %search ], [ %k1, %other ]
  %rows = icmp ult i64 %k, %count
  br i1 %rows, label %compare, label %ask
ask: ; Python, which may know of more memory
  %finds.at = getelementptr i8, ptr %monitor, i64 MONITOR_FINDS
  %finds = load i64, ptr %finds.at
  %finder = icmp ne i64 %finds, 0
  br i1 %finder, label %find, label %outside
find:
  store i64 %a, ptr %question
  %bytes.at = getelementptr i8, ptr %question, i64 8
  store i64 %size, ptr %bytes.at
  %verdict = call i32 @call_back(ptr %probe, i32 FIND_KIND, i32 %site, ptr %question)
  %found = icmp eq i32 %verdict, 0
  br i1 %found, label %told, label %outside
told:
  %told.lo.at = getelementptr i8, ptr %question, i64 16
  %told.lo = load i64, ptr %told.lo.at
  %told.hi.at = getelementptr i8, ptr %question, i64 24
  %told.hi = load i64, ptr %told.hi.at
  %told.span = sub i64 %told.hi, %told.lo
  br label %remember
compare:
  %row.place = shl i64 %k, 4
  %row.at = getelementptr i8, ptr %table, i64 %row.place
  %row.lo = load i64, ptr %row.at
  %row.hi.at = getelementptr i8, ptr %row.at, i64 8
  %row.hi = load i64, ptr %row.hi.at
  %row.span = sub i64 %row.hi, %row.lo
  %row.room = call i64 @llvm.usub.sat.i64(i64 %row.span, i64 %below)
  %row.delta = sub i64 %a, %row.lo
  %row.inside = icmp ult i64 %row.delta, %row.room
  br i1 %row.inside, label %remember, label %other
other:
  %k1 = add i64 %k, 1
  br label %row
remember:
  %at.lo = phi i64 [ %row.lo, %compare ], [ %told.lo, %told ]
  %at.span = phi i64 [ %row.span, %compare ], [ %told.span, %told ]
  ; The quick look takes the distance from here for the address when it tests alignment.
  %row.skew = sub i64 0, %at.lo
  %row.skip = urem i64 %row.skew, LARGEST_ELEMENT
  %row.base = add i64 %at.lo, %row.skip
  %row.rest = call i64 @llvm.usub.sat.i64(i64 %at.span, i64 %row.skip)
  store i64 %row.base, ptr %cache.lo
  store i64 %row.rest, ptr %cache.bytes
  br label %fine
fine:
  %f = or i64 %allowed, %bit
  br label %next
beside:
  %fb = or i64 %allowed, %bit
  %v = or i64 %view, %bit
  br label %next
outside:
  %s = or i64 %storage, %bit
  br label %next
misaligned:
  %o = or i64 %odd, %bit
  br label %next
next:
  %storage1 = phi i64 [ %storage, %test ], [ %storage, %fine ], [ %storage, %beside ],
                      [ %s, %outside ], [ %storage, %misaligned ]
  %view1 = phi i64 [ %view, %test ], [ %view, %fine ], [ %v, %beside ], [ %view, %outside ],
                   [ %view, %misaligned ]
  %odd1 = phi i64 [ %odd, %test ], [ %odd, %fine ], [ %odd, %beside ], [ %odd, %outside ],
                  [ %o, %misaligned ]
  %allowed1 = phi i64 [ %allowed, %test ], [ %f, %fine ], [ %fb, %beside ],
                      [ %allowed, %outside ], [ %allowed, %misaligned ]
  %l1 = add i32 %l, 1
  br label %lane
done:
  store i64 %storage, ptr %payload
  %view.at = getelementptr i8, ptr %payload, i64 8
  store i64 %view, ptr %view.at
  %odd.at = getelementptr i8, ptr %payload, i64 16
  store i64 %odd, ptr %odd.at
  %fourth.at = getelementptr i8, ptr %payload, i64 24
  store i64 0, ptr %fourth.at
  %bits.at = getelementptr i8, ptr %payload, i64 32
  store i64 %bits, ptr %bits.at
  ret i64 %allowed
}

; ---- counts failed lanes; calls back with the payload when no lower program has failed there
define void @report(ptr %probe, i32 %site, ptr %payload) {
entry:
  %monitor = load ptr, ptr %probe
  %program.at = getelementptr i8, ptr %probe, i64 PROBE_PROGRAM
  %program = load i64, ptr %program.at
  %mark = add i64 %program, 1
  ; The parts of one access count together.
  %entry.at = call ptr @site_entry(ptr %monitor, i32 %site)
  %leader.at = getelementptr i8, ptr %entry.at, i64 12
  %leader = load i32, ptr %leader.at
  %record = call ptr @open_record(ptr %probe, i32 %leader)
  %counters.at = getelementptr i8, ptr %monitor, i64 MONITOR_COUNTERS
  %counters = load ptr, ptr %counters.at
  %wide = sext i32 %leader to i64
  %place = mul i64 %wide, COUNTER_BYTES
  %own = getelementptr i8, ptr %counters, i64 %place
  br label %class
class:
  %c = phi i64 [ 0, %entry ], [ %c1, %next ]
  %news = phi i1 [ false, %entry ], [ %news1, %next ]
  %more = icmp ult i64 %c, 4
  br i1 %more, label %look, label %done
look:
  %c8 = shl i64 %c, 3
  %bits.at = getelementptr i8, ptr %payload, i64 %c8
  %bits = load i64, ptr %bits.at
  %none = icmp eq i64 %bits, 0
  br i1 %none, label %next, label %add
add:
  %c24 = mul i64 %c, 24
  %count.at = getelementptr i8, ptr %own, i64 %c24
  %failed = call i64 @llvm.ctpop.i64(i64 %bits)
  %before = atomicrmw add ptr %count.at, i64 %failed monotonic
  %best.at = getelementptr i8, ptr %count.at, i64 8
  %best = atomicrmw umin ptr %best.at, i64 %program monotonic
  %lower = icmp ult i64 %program, %best
  %last.place = add i64 %c8, 64
  %last.at = getelementptr i8, ptr %record, i64 %last.place
  %last = load i64, ptr %last.at
  %same = icmp eq i64 %last, %mark
  br i1 %same, label %counted, label %first
first:
  store i64 %mark, ptr %last.at
  %programs.at = getelementptr i8, ptr %count.at, i64 16
  %programs = atomicrmw add ptr %programs.at, i64 1 monotonic
  br label %counted
counted:
  %either = or i1 %news, %lower
  br label %next
next:
  %news1 = phi i1 [ %news, %look ], [ %either, %counted ]
  %c1 = add i64 %c, 1
  br label %class
done:
  br i1 %news, label %tell, label %exit
tell:
  %called1 = call i32 @call_back(ptr %probe, i32 EVENT, i32 %site, ptr %payload)
  br label %exit
exit:
  ret void
}

define internal i32 @call_back(ptr %probe, i32 %kind, i32 %site, ptr %payload) noinline {
  %program.at = getelementptr i8, ptr %probe, i64 PROBE_PROGRAM
  %program = load i64, ptr %program.at
  %launch.at = getelementptr i8, ptr %probe, i64 PROBE_LAUNCH
  %launch = load ptr, ptr %launch.at
  %function.at = getelementptr i8, ptr %launch, i64 LAUNCH_CALLBACK
  %function = load ptr, ptr %function.at
  %verdict = call i32 %function(ptr %launch, i64 %program, i32 %kind, i32 %site, ptr %payload)
  ret i32 %verdict
}

; ---- the log: records of 48 bytes, of a thread and then of the launch, handed over when full
define internal void @log(ptr %probe, ptr %record) {
  %logged.at = getelementptr i8, ptr %probe, i64 PROBE_LOGGED
  %n = load i64, ptr %logged.at
  %place = mul i64 %n, 48
  %offset = add i64 %place, PROBE_LOG
  %to = getelementptr i8, ptr %probe, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %record, i64 48, i1 false)
  %n1 = add i64 %n, 1
  store i64 %n1, ptr %logged.at
  %full = icmp uge i64 %n1, LOG_RECORDS
  br i1 %full, label %flush, label %exit
flush:
  call void @finish(ptr %probe)
  br label %exit
exit:
  ret void
}

; ---- moves a thread's log to the launch's: the log is full, or the thread has run its programs
define void @finish(ptr %probe) {
entry:
  %logged.at = getelementptr i8, ptr %probe, i64 PROBE_LOGGED
  %n = load i64, ptr %logged.at
  %empty = icmp eq i64 %n, 0
  br i1 %empty, label %exit, label %begin
begin:
  %monitor = load ptr, ptr %probe
  %lock = getelementptr i8, ptr %monitor, i64 MONITOR_LOG_MUTEX
  call void @acquire(ptr %lock)
  %used.at = getelementptr i8, ptr %monitor, i64 MONITOR_LOG_USED
  %used = load i64, ptr %used.at
  %needed = add i64 %used, %n
  %full = icmp ugt i64 %needed, SHARED_LOG_RECORDS
  br i1 %full, label %drain, label %copy
drain:
  %called2 = call i32 @call_back(ptr %probe, i32 DRAIN, i32 0, ptr %monitor)
  br label %copy
copy:
  %first = phi i64 [ %used, %begin ], [ 0, %drain ]
  %total = add i64 %first, %n
  store i64 %total, ptr %used.at
  %shared.at = getelementptr i8, ptr %monitor, i64 MONITOR_LOG
  %shared = load ptr, ptr %shared.at
  %place = mul i64 %first, 48
  %to = getelementptr i8, ptr %shared, i64 %place
  %from = getelementptr i8, ptr %probe, i64 PROBE_LOG
  %bytes = mul i64 %n, 48
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  store atomic i32 0, ptr %lock release, align 4
  store i64 0, ptr %logged.at
  br label %exit
exit:
  ret void
}

define internal void @acquire(ptr %lock) {
entry:
  br label %try
try:
  %pair = cmpxchg ptr %lock, i32 0, i32 1 acquire monotonic
  %ours = extractvalue { i32, i1 } %pair, 1
  br i1 %ours, label %exit, label %wait
wait:
  %yielded = call i32 @sched_yield()
  br label %try
exit:
  ret void
}

; ---- a run has ended: it waits with those before it that it follows in their step, or lets them go.
; What is logged for several runs has no room for the count of synchronising accesses.
define internal void @settle(ptr %probe, ptr %record) {
entry:
  %first = getelementptr i8, ptr %record, i64 OPEN_FIRST
  %count.at = getelementptr i8, ptr %record, i64 OPEN_COUNT
  %stride.at = getelementptr i8, ptr %record, i64 OPEN_STRIDE
  %lanes.at = getelementptr i8, ptr %record, i64 OPEN_LANES
  %count = load i64, ptr %count.at
  %none = icmp eq i64 %count, 0
  br i1 %none, label %begin, label %compare
compare:
  %start = load i64, ptr %record
  %end.at = getelementptr i8, ptr %record, i64 8
  %end = load i64, ptr %end.at
  %bytes = sub i64 %end, %start
  %first.start = load i64, ptr %first
  %first.end.at = getelementptr i8, ptr %first, i64 8
  %first.end = load i64, ptr %first.end.at
  %first.bytes = sub i64 %first.end, %first.start
  %alike = icmp eq i64 %bytes, %first.bytes
  %seq.at = getelementptr i8, ptr %record, i64 24
  %seq = load i64, ptr %seq.at
  %first.seq.at = getelementptr i8, ptr %first, i64 24
  %first.seq = load i64, ptr %first.seq.at
  %seqs = or i64 %seq, %first.seq
  %timeless = icmp eq i64 %seqs, 0
  %lane.at = getelementptr i8, ptr %record, i64 36
  %lane32 = load i32, ptr %lane.at
  %lane = zext i32 %lane32 to i64
  %first.lane.at = getelementptr i8, ptr %first, i64 36
  %first.lane32 = load i32, ptr %first.lane.at
  %first.lane = zext i32 %first.lane32 to i64
  %apart = sub i64 %start, %first.start
  %lanes = sub i64 %lane, %first.lane
  %beyond = icmp uge i64 %apart, %bytes
  %near = icmp ult i64 %apart, REPEAT_STRIDE_LIMIT
  %above = icmp ult i64 %lanes, REPEAT_LANE_LIMIT
  %second1 = and i1 %beyond, %near
  %second = and i1 %second1, %above
  %stride = load i64, ptr %stride.at
  %step = load i64, ptr %lanes.at
  %due = mul i64 %count, %stride
  %due.lanes = mul i64 %count, %step
  %in.place = icmp eq i64 %apart, %due
  %in.lane = icmp eq i64 %lanes, %due.lanes
  %room = icmp ult i64 %count, REPEAT_COUNT_LIMIT
  %later1 = and i1 %in.place, %in.lane
  %later = and i1 %later1, %room
  %one = icmp eq i64 %count, 1
  %fits = select i1 %one, i1 %second, i1 %later
  %fits1 = and i1 %fits, %alike
  %fits2 = and i1 %fits1, %timeless
  br i1 %fits2, label %join, label %let.go
join:
  %stride1 = select i1 %one, i64 %apart, i64 %stride
  %step1 = select i1 %one, i64 %lanes, i64 %step
  store i64 %stride1, ptr %stride.at
  store i64 %step1, ptr %lanes.at
  %count1 = add i64 %count, 1
  store i64 %count1, ptr %count.at
  ret void
let.go:
  call void @log_repeated(ptr %probe, ptr %record)
  br label %begin
begin:
  call void @llvm.memcpy.p0.p0.i64(ptr %first, ptr %record, i64 48, i1 false)
  store i64 1, ptr %count.at
  ret void
}

; ---- logs the runs that wait; two are logged by themselves, since any two have a step
define internal void @log_repeated(ptr %probe, ptr %record) {
entry:
  %first = getelementptr i8, ptr %record, i64 OPEN_FIRST
  %count.at = getelementptr i8, ptr %record, i64 OPEN_COUNT
  %count = load i64, ptr %count.at
  store i64 0, ptr %count.at
  %stride.at = getelementptr i8, ptr %record, i64 OPEN_STRIDE
  %stride = load i64, ptr %stride.at
  %lanes.at = getelementptr i8, ptr %record, i64 OPEN_LANES
  %lanes = load i64, ptr %lanes.at
  %end.at = getelementptr i8, ptr %first, i64 8
  %end = load i64, ptr %end.at
  %many = icmp ugt i64 %count, 2
  br i1 %many, label %several, label %few
several:
  %others = sub i64 %count, 1
  %reach = mul i64 %others, %stride
  %last = add i64 %end, %reach
  store i64 %last, ptr %end.at
  %lanes.high = shl i64 %lanes, REPEAT_LANE_SHIFT
  %stride.high = shl i64 %stride, REPEAT_STRIDE_SHIFT
  %word1 = or i64 %count, %lanes.high
  %word = or i64 %word1, %stride.high
  %seq.at = getelementptr i8, ptr %first, i64 24
  store i64 %word, ptr %seq.at
  %site.at = getelementptr i8, ptr %first, i64 32
  %site = load i32, ptr %site.at
  %marked = or i32 %site, REPEATED_SITE
  store i32 %marked, ptr %site.at
  call void @log(ptr %probe, ptr %first)
  ret void
few:
  call void @log(ptr %probe, ptr %first)
  %two = icmp eq i64 %count, 2
  br i1 %two, label %second, label %exit
second:
  %start = load i64, ptr %first
  %start1 = add i64 %start, %stride
  store i64 %start1, ptr %first
  %end1 = add i64 %end, %stride
  store i64 %end1, ptr %end.at
  %lane.at = getelementptr i8, ptr %first, i64 36
  %lane = load i32, ptr %lane.at
  %step = trunc i64 %lanes to i32
  %lane1 = add i32 %lane, %step
  store i32 %lane1, ptr %lane.at
  call void @log(ptr %probe, ptr %first)
  br label %exit
exit:
  ret void
}

; ---- a run of adjacent bytes was accessed by consecutive lanes: continues the site's open record, or
; begins another. What the byte at 0 would have for a lane, modulo the tile, is the record's origin.
define void @footprint(ptr %probe, i32 %site, i64 %start, i64 %bytes, i32 %lane) {
entry:
  %monitor = load ptr, ptr %probe
  %entry.at = call ptr @site_entry(ptr %monitor, i32 %site)
  %size32 = load i32, ptr %entry.at
  %size = zext i32 %size32 to i64
  %period.at = getelementptr i8, ptr %entry.at, i64 24
  %period = load i64, ptr %period.at
  %lane64 = zext i32 %lane to i64
  %behind = mul i64 %lane64, %size
  %apart = sub i64 %start, %behind
  %origin = and i64 %apart, %period
  %record = call ptr @open_record(ptr %probe, i32 %site)
  %origin.at = getelementptr i8, ptr %record, i64 OPEN_ORIGIN
  %known = load i64, ptr %origin.at
  %same = icmp eq i64 %known, %origin
  %end.at = getelementptr i8, ptr %record, i64 8
  %end = load i64, ptr %end.at
  %new.end = add i64 %start, %bytes
  %next.to = icmp eq i64 %end, %start
  %goes.on = and i1 %next.to, %same
  br i1 %goes.on, label %continue, label %other
continue:
  store i64 %new.end, ptr %end.at
  ret void
other:
  %empty = icmp eq i64 %end, 0
  br i1 %empty, label %begin, label %write
write:
  call void @settle(ptr %probe, ptr %record)
  br label %begin
begin:
  store i64 %origin, ptr %origin.at
  %seq.at = getelementptr i8, ptr %monitor, i64 MONITOR_SEQUENCE
  %seq = load atomic i64, ptr %seq.at monotonic, align 8
  %program.at = getelementptr i8, ptr %probe, i64 PROBE_PROGRAM
  %program = load i64, ptr %program.at
  %clock.at = getelementptr i8, ptr %probe, i64 PROBE_EPOCH
  %clock = load i64, ptr %clock.at
  store i64 %start, ptr %record
  store i64 %new.end, ptr %end.at
  %r16 = getelementptr i8, ptr %record, i64 16
  store i64 %program, ptr %r16
  %r24 = getelementptr i8, ptr %record, i64 24
  store i64 %seq, ptr %r24
  %r32 = getelementptr i8, ptr %record, i64 32
  store i32 %site, ptr %r32
  %r36 = getelementptr i8, ptr %record, i64 36
  store i32 %lane, ptr %r36
  %r40 = getelementptr i8, ptr %record, i64 40
  store i64 %clock, ptr %r40
  ret void
}

; ---- the active lanes of an access at addresses of any kind
define void @footprint_lanes(ptr %probe, i32 %site, ptr %addresses, i64 %bits, i32 %first) {
entry:
  %monitor = load ptr, ptr %probe
  %entry.at = call ptr @site_entry(ptr %monitor, i32 %site)
  %size32 = load i32, ptr %entry.at
  %size = zext i32 %size32 to i64
  %lanes.at = getelementptr i8, ptr %entry.at, i64 4
  %lanes = load i32, ptr %lanes.at
  %offsets.at = getelementptr i8, ptr %entry.at, i64 16
  %offsets = load ptr, ptr %offsets.at
  %stores.at = getelementptr i8, ptr %entry.at, i64 32
  %stores = load i64, ptr %stores.at
  br label %lane
  ; Of neighbours at one address the first is logged, and one more of a store: lanes share an element.
  ; The others are counted in the record, which nothing continues from then on.
lane:
  %l = phi i32 [ 0, %entry ], [ %l1, %next ]
  %seen = phi i64 [ -1, %entry ], [ %seen1, %next ]
  %spare = phi i64 [ %stores, %entry ], [ %spare1, %next ]
  %more = icmp ult i32 %l, %lanes
  br i1 %more, label %test, label %exit
test:
  %l64 = zext i32 %l to i64
  %bit = shl i64 1, %l64
  %hit = and i64 %bits, %bit
  %active = icmp ne i64 %hit, 0
  br i1 %active, label %look, label %next
look:
  %slot = shl i64 %l64, 3
  %address.at = getelementptr i8, ptr %addresses, i64 %slot
  %a = load i64, ptr %address.at
  %again = icmp eq i64 %a, %seen
  %used.up = icmp eq i64 %spare, 0
  %known = and i1 %again, %used.up
  %spare.left = select i1 %again, i64 0, i64 %stores
  br i1 %known, label %repeat, label %record
repeat:
  %open = call ptr @open_record(ptr %probe, i32 %site)
  %open.start = load i64, ptr %open
  %single = icmp eq i64 %open.start, %a
  br i1 %single, label %count, label %record
count:
  %origin.at = getelementptr i8, ptr %open, i64 OPEN_ORIGIN
  store i64 -1, ptr %origin.at
  %word.at = getelementptr i8, ptr %open, i64 24
  %word = load i64, ptr %word.at
  %word1 = add i64 %word, ONE_MORE_LANE
  store i64 %word1, ptr %word.at
  br label %next
record:
  %offset.place = shl i64 %l64, 2
  %offset.at = getelementptr i8, ptr %offsets, i64 %offset.place
  %offset = load i32, ptr %offset.at
  %index = add i32 %first, %offset
  call void @footprint(ptr %probe, i32 %site, i64 %a, i64 %size, i32 %index)
  br label %next
next:
  %seen1 = phi i64 [ %seen, %test ], [ %a, %count ], [ %a, %record ]
  %spare1 = phi i64 [ %spare, %test ], [ %spare.left, %count ], [ %spare.left, %record ]
  %l1 = add i32 %l, 1
  br label %lane
exit:
  ret void
}

; ---- the rows of a tile, each a run of adjacent bytes: does what `footprint` does with one after the
; other. Where they come first and nothing may part them, that is: all but the last wait to be logged
; as one record, and the last is open.
define void @footprint_tile(ptr %probe, i32 %site, i64 %start, i64 %bytes, i32 %lane, i64 %count,
                            i64 %stride, i32 %lanes) {
entry:
  %monitor = load ptr, ptr %probe
  %record = call ptr @open_record(ptr %probe, i32 %site)
  %end.at = getelementptr i8, ptr %record, i64 8
  %open.end = load i64, ptr %end.at
  %waiting.at = getelementptr i8, ptr %record, i64 OPEN_COUNT
  %waiting = load i64, ptr %waiting.at
  %seq.at = getelementptr i8, ptr %monitor, i64 MONITOR_SEQUENCE
  %seq = load atomic i64, ptr %seq.at monotonic, align 8
  %before1 = or i64 %open.end, %waiting
  %before2 = or i64 %before1, %seq
  %first = icmp eq i64 %before2, 0
  %some = icmp sgt i64 %bytes, 0
  %others = sub i64 %count, 1
  ; Three rows at least, and no more than can wait.
  %beyond.second = sub i64 %count, 3
  %several = icmp ult i64 %beyond.second, REPEAT_COUNT_ROOM
  %gap = icmp ugt i64 %stride, %bytes
  %near = icmp ult i64 %stride, REPEAT_STRIDE_LIMIT
  %above = icmp ult i32 %lanes, REPEAT_LANE_LIMIT
  %fits1 = and i1 %first, %some
  %fits2 = and i1 %several, %gap
  %fits3 = and i1 %near, %above
  %fits4 = and i1 %fits1, %fits2
  %fits = and i1 %fits4, %fits3
  br i1 %fits, label %at.once, label %rows
at.once:
  %program.at = getelementptr i8, ptr %probe, i64 PROBE_PROGRAM
  %program = load i64, ptr %program.at
  %clock.at = getelementptr i8, ptr %probe, i64 PROBE_EPOCH
  %clock = load i64, ptr %clock.at
  %entry.at = call ptr @site_entry(ptr %monitor, i32 %site)
  %size32 = load i32, ptr %entry.at
  %size = zext i32 %size32 to i64
  %period.at = getelementptr i8, ptr %entry.at, i64 24
  %period = load i64, ptr %period.at
  %others32 = trunc i64 %others to i32
  %reach = mul i64 %others, %stride
  %reach.lanes = mul i32 %others32, %lanes
  %last = add i64 %start, %reach
  %last.lane = add i32 %lane, %reach.lanes
  %last.lane64 = zext i32 %last.lane to i64
  %behind = mul i64 %last.lane64, %size
  %apart = sub i64 %last, %behind
  %origin = and i64 %apart, %period
  %origin.at = getelementptr i8, ptr %record, i64 OPEN_ORIGIN
  store i64 %origin, ptr %origin.at
  call void @begin_record(ptr %record, i64 %last, i64 %bytes, i64 %program, i32 %site, i32 %last.lane,
                          i64 %clock)
  %first.at = getelementptr i8, ptr %record, i64 OPEN_FIRST
  call void @begin_record(ptr %first.at, i64 %start, i64 %bytes, i64 %program, i32 %site, i32 %lane,
                          i64 %clock)
  store i64 %others, ptr %waiting.at
  %stride.at = getelementptr i8, ptr %record, i64 OPEN_STRIDE
  store i64 %stride, ptr %stride.at
  %lanes.at = getelementptr i8, ptr %record, i64 OPEN_LANES
  %lanes64 = zext i32 %lanes to i64
  store i64 %lanes64, ptr %lanes.at
  ret void
rows:
  br i1 %some, label %row, label %exit
row:
  %k = phi i64 [ 0, %rows ], [ %k1, %log ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %log, label %exit
log:
  %offset = mul i64 %k, %stride
  %row.start = add i64 %start, %offset
  %k32 = trunc i64 %k to i32
  %rows.above = mul i32 %k32, %lanes
  %row.lane = add i32 %lane, %rows.above
  call void @footprint(ptr %probe, i32 %site, i64 %row.start, i64 %bytes, i32 %row.lane)
  %k1 = add i64 %k, 1
  br label %row
exit:
  ret void
}

define internal void @begin_record(ptr %record, i64 %start, i64 %bytes, i64 %program, i32 %site,
                                   i32 %lane, i64 %clock) alwaysinline {
  store i64 %start, ptr %record
  %end = add i64 %start, %bytes
  %r8 = getelementptr i8, ptr %record, i64 8
  store i64 %end, ptr %r8
  %r16 = getelementptr i8, ptr %record, i64 16
  store i64 %program, ptr %r16
  %r24 = getelementptr i8, ptr %record, i64 24
  store i64 0, ptr %r24
  %r32 = getelementptr i8, ptr %record, i64 32
  store i32 %site, ptr %r32
  %r36 = getelementptr i8, ptr %record, i64 36
  store i32 %lane, ptr %r36
  %r40 = getelementptr i8, ptr %record, i64 40
  store i64 %clock, ptr %r40
  ret void
}

; ---- logs all open records: a program ends, or what it does next is ordered otherwise
define void @close(ptr %probe) {
entry:
  %monitor = load ptr, ptr %probe
  %count.at = getelementptr i8, ptr %monitor, i64 MONITOR_SITE_COUNT
  %count64 = load i64, ptr %count.at
  %count = trunc i64 %count64 to i32
  br label %site
site:
  %n = phi i32 [ 0, %entry ], [ %n1, %next ]
  %more = icmp ult i32 %n, %count
  br i1 %more, label %look, label %exit
look:
  %record = call ptr @open_record(ptr %probe, i32 %n)
  %end.at = getelementptr i8, ptr %record, i64 8
  %end = load i64, ptr %end.at
  %empty = icmp eq i64 %end, 0
  br i1 %empty, label %next, label %write
write:
  call void @settle(ptr %probe, ptr %record)
  store i64 0, ptr %end.at
  call void @log_repeated(ptr %probe, ptr %record)
  br label %next
next:
  %n1 = add i32 %n, 1
  br label %site
exit:
  ret void
}

; ---- a barrier of the program
define void @pass_barrier(ptr %probe) {
  call void @close(ptr %probe)
  %barrier.at = getelementptr i8, ptr %probe, i64 PROBE_BARRIER
  %barrier = load i32, ptr %barrier.at
  %next = add i32 %barrier, 1
  store i32 %next, ptr %barrier.at
  ret void
}

; ---- an iteration of a loop, in a launch that does not synchronise: the epoch counts iterations there; one that
; threads exchange values in fills the lower bits before
define void @pass_iteration(ptr %probe, i32 %fill) {
  call void @close(ptr %probe)
  %epoch.at = getelementptr i8, ptr %probe, i64 PROBE_EPOCH
  %epoch = load i32, ptr %epoch.at
  %filled = or i32 %epoch, %fill
  %full = icmp eq i32 %filled, 2147483647
  %more = add i32 %filled, 1
  %next = select i1 %full, i32 %filled, i32 %more
  store i32 %next, ptr %epoch.at
  ret void
}

; ---- one atomic at a time, so that the log's order is the order of their effects
define void @lock(ptr %probe) {
  call void @close(ptr %probe)
  %monitor = load ptr, ptr %probe
  %lock = getelementptr i8, ptr %monitor, i64 MONITOR_MUTEX
  call void @acquire(ptr %lock)
  ret void
}

; ---- returns what the access is to have seen, which is `value` unless an earlier order is explored
define i64 @synchronise(ptr %probe, i32 %site, i64 %address, i32 %flags, i64 %value) {
entry:
  %record = alloca [48 x i8], align 16
  %report = alloca [4 x i64], align 16
  %monitor = load ptr, ptr %probe
  %lock = getelementptr i8, ptr %monitor, i64 MONITOR_MUTEX
  %seq.at = getelementptr i8, ptr %monitor, i64 MONITOR_SEQUENCE
  %before = atomicrmw add ptr %seq.at, i64 1 monotonic
  %seq = add i64 %before, 1
  %rereads.at = getelementptr i8, ptr %monitor, i64 MONITOR_REREADS
  %rereads = load i64, ptr %rereads.at
  %explores = icmp ne i64 %rereads, 0
  store i64 %value, ptr %report
  br i1 %explores, label %explore, label %unlock
explore:
  %report.address = getelementptr i64, ptr %report, i64 1
  store i64 %address, ptr %report.address
  %report.flags = getelementptr i64, ptr %report, i64 2
  %flags64 = zext i32 %flags to i64
  store i64 %flags64, ptr %report.flags
  %report.seq = getelementptr i64, ptr %report, i64 3
  store i64 %seq, ptr %report.seq
  %called3 = call i32 @call_back(ptr %probe, i32 SYNCHRONISE, i32 %site, ptr %report)
  br label %unlock
unlock:
  %seen = load i64, ptr %report
  store atomic i32 0, ptr %lock release, align 4
  %marked = xor i32 %site, -1
  ; A poll that only reads replaces the same poll just before it. One that writes publishes nothing
  ; that the second of three did not: of more, only the last one's place in the order is kept.
  %implied.flag = and i32 %flags, IMPLIES_BARRIER
  %implied.not = icmp eq i32 %implied.flag, 0
  %implied = select i1 %implied.not, i32 0, i32 1
  %logged.at = getelementptr i8, ptr %probe, i64 PROBE_LOGGED
  %n = load i64, ptr %logged.at
  %writes = and i32 %flags, WRITING
  %reads = icmp eq i32 %writes, 0
  %kept = select i1 %reads, i64 1, i64 3
  %own.at = getelementptr i8, ptr %probe, i64 PROBE_PROGRAM
  %own = load i64, ptr %own.at
  %two = icmp uge i64 %n, 2
  br i1 %two, label %between, label %usual
  ; What a poll touches is in the log, too, where it writes: after every second record one of this
  ; site. The one after the last poll goes if this poll does.
between:
  %touched.index = sub i64 %n, 1
  %touched.place = mul i64 %touched.index, 48
  %touched.offset = add i64 %touched.place, PROBE_LOG
  %touched = getelementptr i8, ptr %probe, i64 %touched.offset
  %touched.start = load i64, ptr %touched
  %touched.program.at = getelementptr i8, ptr %touched, i64 16
  %touched.program = load i64, ptr %touched.program.at
  %touched.site.at = getelementptr i8, ptr %touched, i64 32
  %touched.site = load i32, ptr %touched.site.at
  %touched.same1 = icmp eq i64 %touched.start, %address
  %touched.same2 = icmp eq i64 %touched.program, %own
  %touched.same3 = icmp eq i32 %touched.site, %site
  %touched.same4 = and i1 %touched.same1, %touched.same2
  %touched.same = and i1 %touched.same3, %touched.same4
  %touched.count = zext i1 %touched.same to i64
  %without = sub i64 %n, %touched.count
  br label %usual
usual:
  %m = phi i64 [ %n, %unlock ], [ %without, %between ]
  %alternates = phi i64 [ 0, %unlock ], [ %touched.count, %between ]
  %stride = add i64 %alternates, 1
  %others = sub i64 %kept, 1
  %span = mul i64 %others, %stride
  %enough = icmp ugt i64 %m, %span
  br i1 %enough, label %first, label %write
first:
  %now.at = getelementptr i8, ptr %probe, i64 PROBE_BARRIER
  %now = load i32, ptr %now.at
  br label %compare
compare:
  %turn = phi i64 [ 1, %first ], [ %next.turn, %equal ]
  %after = phi i32 [ %now, %first ], [ %known.barrier, %equal ]
  %turns = sub i64 %turn, 1
  %back = mul i64 %turns, %stride
  %newest = sub i64 %m, 1
  %index = sub i64 %newest, %back
  %place = mul i64 %index, 48
  %offset = add i64 %place, PROBE_LOG
  %known = getelementptr i8, ptr %probe, i64 %offset
  %known.address = load i64, ptr %known
  %known.program.at = getelementptr i8, ptr %known, i64 16
  %known.program = load i64, ptr %known.program.at
  %known.site.at = getelementptr i8, ptr %known, i64 32
  %known.site = load i32, ptr %known.site.at
  %known.barrier.at = getelementptr i8, ptr %known, i64 40
  %known.barrier = load i32, ptr %known.barrier.at
  %known.flags.at = getelementptr i8, ptr %known, i64 44
  %known.flags = load i32, ptr %known.flags.at
  %expected = sub i32 %after, %implied
  %same.address = icmp eq i64 %known.address, %address
  %same.program = icmp eq i64 %known.program, %own
  %same.site = icmp eq i32 %known.site, %marked
  %same.flags = icmp eq i32 %known.flags, %flags
  %same.barrier = icmp eq i32 %known.barrier, %expected
  %same1 = and i1 %same.address, %same.program
  %same2 = and i1 %same1, %same.site
  %same3 = and i1 %same2, %same.flags
  %same4 = and i1 %same3, %same.barrier
  ; With a stride of two this is the record after the poll, else the poll itself.
  %next.offset = mul i64 %alternates, 48
  %next.record = getelementptr i8, ptr %known, i64 %next.offset
  %next.address = load i64, ptr %next.record
  %next.site.at = getelementptr i8, ptr %next.record, i64 32
  %next.site = load i32, ptr %next.site.at
  %is.alternate = icmp eq i64 %alternates, 1
  %next.expected = select i1 %is.alternate, i32 %site, i32 %marked
  %same5 = icmp eq i64 %next.address, %address
  %same6 = icmp eq i32 %next.site, %next.expected
  %same7 = and i1 %same5, %same6
  %same = and i1 %same4, %same7
  br i1 %same, label %equal, label %write
equal:
  %next.turn = add i64 %turn, 1
  %more = icmp ule i64 %next.turn, %kept
  br i1 %more, label %compare, label %renew
renew:
  store i64 %m, ptr %logged.at
  %last.place = sub i64 %m, 1
  %last.bytes = mul i64 %last.place, 48
  %last.offset = add i64 %last.bytes, PROBE_LOG
  %last = getelementptr i8, ptr %probe, i64 %last.offset
  %last.seq.at = getelementptr i8, ptr %last, i64 24
  store i64 %seq, ptr %last.seq.at
  ret i64 %seen
write:
  %entry.at = call ptr @site_entry(ptr %monitor, i32 %site)
  %size32 = load i32, ptr %entry.at
  %size = zext i32 %size32 to i64
  %end = add i64 %address, %size
  %program.at = getelementptr i8, ptr %probe, i64 PROBE_PROGRAM
  %program = load i64, ptr %program.at
  %epoch.at = getelementptr i8, ptr %probe, i64 PROBE_EPOCH
  %epoch = load i32, ptr %epoch.at
  %barrier.at = getelementptr i8, ptr %probe, i64 PROBE_BARRIER
  %barrier = load i32, ptr %barrier.at
  store i64 %address, ptr %record
  %r8 = getelementptr i8, ptr %record, i64 8
  store i64 %end, ptr %r8
  %r16 = getelementptr i8, ptr %record, i64 16
  store i64 %program, ptr %r16
  %r24 = getelementptr i8, ptr %record, i64 24
  store i64 %seq, ptr %r24
  %r32 = getelementptr i8, ptr %record, i64 32
  store i32 %marked, ptr %r32
  %r36 = getelementptr i8, ptr %record, i64 36
  store i32 %epoch, ptr %r36
  %r40 = getelementptr i8, ptr %record, i64 40
  store i32 %barrier, ptr %r40
  %r44 = getelementptr i8, ptr %record, i64 44
  store i32 %flags, ptr %r44
  call void @log(ptr %probe, ptr %record)
  %epoch1 = add i32 %epoch, 1
  store i32 %epoch1, ptr %epoch.at
  %barrier1 = add i32 %barrier, %implied
  store i32 %barrier1, ptr %barrier.at
  ret i64 %seen
}
