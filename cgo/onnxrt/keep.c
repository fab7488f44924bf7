//go:build cgo

#define _GNU_SOURCE
#include "keep.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

// A block has its header before the address that ONNX Runtime gets. Its own allocators align to no more.
#define ALIGN 64
struct sym_block {
	struct sym_pool *pool; // NULL: it is malloc's
	struct sym_block *next;
	size_t bytes; // with the header
};
_Static_assert(sizeof(struct sym_block) <= ALIGN, "the header does not fit");

// ONNX Runtime's kernels for quantised models read that much beyond a block on some processors.
#define OVERRUN 32

static const size_t large_from = 1 << 20; // what is smaller is malloc's
static const size_t step = 1 << 18;       // blocks are of multiples, so that those of one model fit another

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; // Guards what follows.
static struct sym_pool weights, runs;
static int keeps; // else nothing is kept

static void unmap(struct sym_block *list)
{
	while (list) {
		struct sym_block *b = list;

		list = b->next;
		munmap(b, b->bytes);
	}
}

// Removes the oldest of what is kept, beyond the most; the caller unmaps it, without the lock.
static struct sym_block *excess(struct sym_pool *p)
{
	struct sym_block **at = &p->first, *out;
	size_t most = !keeps ? 0 : p == &runs ? p->most - p->used : p->most;

	for (p->kept = 0; *at && p->kept + (*at)->bytes <= most; at = &(*at)->next)
		p->kept += (*at)->bytes;
	out = *at;
	*at = NULL;
	return out;
}

// Removes all that is kept, likewise.
static struct sym_block *everything(struct sym_pool *p)
{
	struct sym_block *out = p->first;

	p->first = NULL;
	p->kept = 0;
	return out;
}

// The smallest kept block that fits. Weights have it for long, and need all of it but an eighth; runs need a quarter: their blocks go round.
static struct sym_block *find(struct sym_pool *p, size_t bytes)
{
	struct sym_block **best = NULL, *b;

	for (struct sym_block **at = &p->first; *at; at = &(*at)->next) {
		size_t n = (*at)->bytes, least = p == &runs ? n / 4 : n - n / 8;

		if (n >= bytes && bytes >= least && (!best || n < (*best)->bytes))
			best = at;
	}
	if (!best)
		return NULL;
	b = *best;
	*best = b->next;
	p->kept -= b->bytes;
	return b;
}

static struct sym_block *map(size_t bytes)
{
	void *b = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return b == MAP_FAILED ? NULL : b;
}

static struct sym_block *take(struct sym_pool *p, size_t bytes)
{
	struct sym_block *b;

	pthread_mutex_lock(&mu);
	b = find(p, bytes);
	if (b)
		p->taken++;
	else
		p->mapped++;
	p->used += b ? b->bytes : bytes;
	if (p == &runs && p->used > p->most)
		p->most = p->used;
	pthread_mutex_unlock(&mu);
	if (b)
		return b;

	b = map(bytes);
	if (!b) {
		sym_keep_trim();
		b = map(bytes);
	}
	if (b) {
		b->pool = p;
		b->bytes = bytes;
		return b;
	}
	pthread_mutex_lock(&mu);
	p->used -= bytes;
	pthread_mutex_unlock(&mu);
	return NULL;
}

static void *allocate(struct sym_pool *p, size_t bytes)
{
	struct sym_block *b = NULL;

	if (bytes == 0 || bytes > SIZE_MAX / 2)
		return NULL;
	bytes += ALIGN + OVERRUN;
	if (bytes >= large_from) {
		b = take(p, (bytes + step - 1) / step * step);
	} else {
		void *small;

		if (posix_memalign(&small, ALIGN, bytes) == 0) {
			b = small;
			b->pool = NULL;
		}
	}
	return b ? (char *)b + ALIGN : NULL;
}

static void *keep_alloc(struct sym_allocator *a, size_t bytes)
{
	(void)a;
	return allocate(&runs, bytes);
}

// Weights and their arrangement: what a session takes for its life.
static void *keep_reserve(struct sym_allocator *a, size_t bytes)
{
	(void)a;
	return allocate(&weights, bytes);
}

static void keep_free(struct sym_allocator *a, void *address)
{
	struct sym_block *b, *out;
	struct sym_pool *p;

	(void)a;
	if (!address)
		return;
	b = (struct sym_block *)((char *)address - ALIGN);
	p = b->pool;
	if (!p) {
		free(b);
		return;
	}
	pthread_mutex_lock(&mu);
	p->used -= b->bytes;
	p->kept += b->bytes;
	b->next = p->first;
	p->first = b;
	out = excess(p);
	pthread_mutex_unlock(&mu);
	unmap(out);
}

static const void *keep_place;

static const void *keep_info(const struct sym_allocator *a)
{
	(void)a;
	return keep_place;
}

static struct sym_allocator allocator = {
	.version = 18, // nothing after reserve is looked at
	.alloc = keep_alloc,
	.free = keep_free,
	.info = keep_info,
	.reserve = keep_reserve,
};

struct sym_allocator *sym_keep(const void *place)
{
	keep_place = place;
	return &allocator;
}

void sym_keep_most(size_t bytes, int on)
{
	struct sym_block *out, *others;

	pthread_mutex_lock(&mu);
	weights.most = bytes;
	keeps = on;
	if (!on)
		runs.most = runs.used;
	out = excess(&weights);
	others = excess(&runs);
	pthread_mutex_unlock(&mu);
	unmap(out);
	unmap(others);
}

void sym_keep_trim(void)
{
	struct sym_block *out, *others;

	pthread_mutex_lock(&mu);
	out = everything(&weights);
	others = everything(&runs);
	runs.most = runs.used;
	pthread_mutex_unlock(&mu);
	unmap(out);
	unmap(others);
}

void sym_keep_state(struct sym_pool *w, struct sym_pool *r)
{
	pthread_mutex_lock(&mu);
	*w = weights;
	*r = runs;
	pthread_mutex_unlock(&mu);
}
