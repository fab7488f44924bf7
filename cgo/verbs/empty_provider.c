//go:build rdma && rdmabench && cgo && linux

// A provider that does nothing, for bench_crossing_test.go: what a burst costs
// before any device sees it, on machines without one.
#include "library.h"

#include <stdlib.h>

static int poll_nothing(struct ibv_cq *cq, int n, struct ibv_wc *wcs) { return 0; }

static int post_nowhere(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	volatile uint64_t seen = 0;
	for (; wr; wr = wr->next)
		seen += wr->wr_id;
	return 0;
}

struct ibv_qp *sv_empty_qp(void)
{
	struct ibv_context *ctx = calloc(1, sizeof *ctx);
	struct ibv_qp *qp = calloc(1, sizeof *qp);

	ctx->ops.post_send = post_nowhere;
	qp->context = ctx;
	return qp;
}

struct ibv_cq *sv_empty_cq(void)
{
	struct ibv_context *ctx = calloc(1, sizeof *ctx);
	struct ibv_cq *cq = calloc(1, sizeof *cq);

	ctx->ops.poll_cq = poll_nothing;
	cq->context = ctx;
	return cq;
}
