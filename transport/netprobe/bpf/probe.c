// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The kernel's half of package netprobe: it looks at watched TCP connections
// whenever a segment arrives, and counts the round-trip times that the kernel
// measured. See ../doc.go for what counts and why. `make bpf` compiles it.
//
// The few fields of the kernel's structures that are read are declared here;
// their real offsets are put in when the program is loaded (CO-RE), so the
// object fits every kernel that carries its types (BTF).

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define BPF_MAP_TYPE_HASH 1
#define BPF_F_NO_PREALLOC 1

// Buckets: one for each of 0..15 us, then 16 an octave below 2^20 us; longer
// spans are in the last. ../histogram.go knows the same numbers.
#define STEPS 16
#define STEPS_LOG2 4
#define SPAN_LOG2 20
#define BUCKETS ((SPAN_LOG2 - STEPS_LOG2 + 1) * STEPS)

// An acknowledgement this late may have waited for the peer's timer
// (TCP_DELACK_MIN is 40 ms on every kernel; the timer never fires early).
#define DELAYED_US 40000

struct sock {
} __attribute__((preserve_access_index));

struct tcp_rack {
	__u64 mstamp; // when the latest-sent of the acknowledged segments was sent
	__u32 rtt_us; // and how long its acknowledgement took
} __attribute__((preserve_access_index));

struct tcp_sock {
	__u32 srtt_us; // smoothed round trip, times 8
	__u32 rcv_nxt;
	__u32 total_retrans;
	struct tcp_rack rack;
} __attribute__((preserve_access_index));

// A connection's counters. Only the program writes them, under the socket's
// lock (segments of one connection are handled one by one), so plain additions
// do. They wrap; user space takes differences. ../counters.go has the same
// layout.
struct counters {
	__u64 mstamp; // rack.mstamp, srtt_us, rcv_nxt at the previous segment
	__u32 srtt_us;
	__u32 rcv_nxt;
	__u32 begun;       // 0: no segment was seen yet
	__u32 retrans[2];  // total_retrans at the two segments before, older first
	__u32 answers;     // acknowledgements that came on data: set aside
	__u32 delayed;     // that took DELAYED_US and more: set aside
	__u32 repeated;    // that followed a retransmission: set aside
	__u32 ack[BUCKETS];
	__u32 smoothed[BUCKETS];
};

// Watched connections by socket cookie; user space puts them in and takes them
// out. Full: user space is told, and that link has its heartbeats alone.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct counters);
} connections SEC(".maps");

static __always_inline __u32 log2_of(__u32 v)
{
	__u32 r = 0;

	if (v >= 1 << 16) { v >>= 16; r += 16; }
	if (v >= 1 << 8) { v >>= 8; r += 8; }
	if (v >= 1 << 4) { v >>= 4; r += 4; }
	if (v >= 1 << 2) { v >>= 2; r += 2; }
	return r + (v >> 1);
}

static __always_inline void count(__u32 *buckets, __u32 us)
{
	__u32 i = us;

	if (us >= 1 << SPAN_LOG2) {
		i = BUCKETS - 1;
	} else if (us >= STEPS) {
		__u32 octave = log2_of(us) - STEPS_LOG2;

		i = (octave + 1) * STEPS + ((us >> octave) & (STEPS - 1));
	}
	// For the verifier, which does not follow the sum: the compiler must check
	// the very register that it indexes with.
	asm volatile("" : "+r"(i));
	if (i < BUCKETS)
		buckets[i]++;
}

// segment runs at the head of tcp_rcv_established, so what it finds in the
// socket is what the PREVIOUS segment left there: one acknowledgement at most.
SEC("tp_btf/tcp_probe")
int BPF_PROG(segment, struct sock *sk)
{
	__u64 cookie = bpf_get_socket_cookie(sk);
	struct counters *c = bpf_map_lookup_elem(&connections, &cookie);
	struct tcp_sock *tp;
	__u32 begun, before, oldest, pure, fresh, repeated;

	if (!c)
		return 0;
	tp = (struct tcp_sock *)bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	begun = c->begun;
	before = c->srtt_us;
	fresh = c->mstamp != tp->rack.mstamp;
	pure = c->rcv_nxt == tp->rcv_nxt;
	// Sent between the segment before the previous one and that one.
	repeated = c->retrans[0] != tp->total_retrans;
	c->begun = 1;
	c->srtt_us = tp->srtt_us;
	c->mstamp = tp->rack.mstamp;
	c->rcv_nxt = tp->rcv_nxt;
	c->retrans[0] = c->retrans[1];
	c->retrans[1] = tp->total_retrans;
	if (!begun || !fresh)
		return 0;

	count(c->smoothed, tp->srtt_us >> 3);
	// The kernel smooths srtt += m - srtt/8 with m the round trip of the
	// OLDEST acknowledged segment, the one that started the peer's timer.
	// It does not keep m, but the two sums give it back exactly.
	oldest = tp->srtt_us - before + (before >> 3);
	if (!pure)
		c->answers++;
	else if (repeated)
		c->repeated++;
	else if (oldest >= DELAYED_US)
		c->delayed++;
	else
		count(c->ack, tp->rack.rtt_us);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL"; // the kernel lets no other program read a tcp_sock
