//go:build rdma && cgo && linux

// The hot calls: a burst is one crossing from Go, and in here a chain of work
// requests on the stack, posted with one call (one doorbell) for each BURST of them.
#include "library.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

// The numbers are those of layout_test.go.
_Static_assert(sizeof(struct sv_sge) == 16 && sizeof(struct sv_sge) == sizeof(struct ibv_sge), "SGE");
_Static_assert(offsetof(struct ibv_sge, length) == 8 && offsetof(struct ibv_sge, lkey) == 12, "SGE is an ibv_sge");
_Static_assert(sizeof(struct sv_send_wr) == 64, "SendWR");
_Static_assert(offsetof(struct sv_send_wr, remote) == 8, "SendWR.Remote");
_Static_assert(offsetof(struct sv_send_wr, sges) == 16, "SendWR.SGEs");
_Static_assert(offsetof(struct sv_send_wr, op) == 48, "SendWR.Op");
_Static_assert(offsetof(struct sv_send_wr, rkey) == 52, "SendWR.RKey");
_Static_assert(offsetof(struct sv_send_wr, imm) == 56, "SendWR.Imm");
_Static_assert(offsetof(struct sv_send_wr, num_sge) == 60, "SendWR.NumSGE");
_Static_assert(offsetof(struct sv_send_wr, signaled) == 62, "SendWR.Signaled");
_Static_assert(offsetof(struct sv_send_wr, fence) == 63, "SendWR.Fence");
_Static_assert(sizeof(struct sv_recv_wr) == 24 && offsetof(struct sv_recv_wr, sge) == 8, "RecvWR");
_Static_assert(sizeof(struct sv_completion) == 32, "Completion");
_Static_assert(offsetof(struct sv_completion, status) == 8, "Completion.Status");
_Static_assert(offsetof(struct sv_completion, kind) == 12, "Completion.Kind");
_Static_assert(offsetof(struct sv_completion, bytes) == 16, "Completion.Bytes");
_Static_assert(offsetof(struct sv_completion, imm) == 20, "Completion.Imm");
_Static_assert(offsetof(struct sv_completion, qp) == 24, "Completion.QP");
_Static_assert(offsetof(struct sv_completion, vendor) == 28, "Completion.Vendor");

enum { BURST = 32 };

static void fill_send(struct ibv_send_wr *to, const struct sv_send_wr *from, struct ibv_send_wr *next)
{
	to->wr_id = from->id;
	to->next = next;
	to->sg_list = (struct ibv_sge *)from->sges;
	to->num_sge = from->num_sge;
	to->opcode = from->op;
	to->send_flags = (from->signaled ? IBV_SEND_SIGNALED : 0) | (from->fence ? IBV_SEND_FENCE : 0);
	to->imm_data = htonl(from->imm);
	to->wr.rdma.remote_addr = from->remote;
	to->wr.rdma.rkey = from->rkey;
}

struct sv_result sv_post_send(struct ibv_qp *qp, const struct sv_send_wr *wrs, int n)
{
	struct ibv_send_wr chain[BURST], *bad;
	int done = 0;

	while (done < n) {
		int burst = n - done < BURST ? n - done : BURST;
		for (int i = 0; i < burst; i++) {
			if (wrs[done + i].num_sge > 2) // there is no room for more in it
				return (struct sv_result){done, EINVAL};
			fill_send(&chain[i], &wrs[done + i], i + 1 < burst ? &chain[i + 1] : NULL);
		}
		bad = NULL;
		int err = qp->context->ops.post_send(qp, chain, &bad);
		if (err)
			return (struct sv_result){done + (bad ? (int)(bad - chain) : 0), err < 0 ? -err : err};
		done += burst;
	}
	return (struct sv_result){done, 0};
}

struct sv_result sv_post_recv(struct ibv_qp *qp, const struct sv_recv_wr *wrs, int n)
{
	struct ibv_recv_wr chain[BURST], *bad;
	int done = 0;

	while (done < n) {
		int burst = n - done < BURST ? n - done : BURST;
		for (int i = 0; i < burst; i++) {
			const struct sv_recv_wr *from = &wrs[done + i];
			chain[i].wr_id = from->id;
			chain[i].next = i + 1 < burst ? &chain[i + 1] : NULL;
			chain[i].sg_list = (struct ibv_sge *)&from->sge;
			// A piece of length 0 would mean 2 GiB to some devices.
			chain[i].num_sge = from->sge.length ? 1 : 0;
		}
		bad = NULL;
		int err = qp->context->ops.post_recv(qp, chain, &bad);
		if (err)
			return (struct sv_result){done + (bad ? (int)(bad - chain) : 0), err < 0 ? -err : err};
		done += burst;
	}
	return (struct sv_result){done, 0};
}

static void copy_completion(struct sv_completion *to, const struct ibv_wc *from)
{
	*to = (struct sv_completion){.id = from->wr_id, .status = from->status, .qp = from->qp_num};
	if (from->status != IBV_WC_SUCCESS) {
		// The library says nothing of the other fields: soft-RoCE leaves what was there.
		to->vendor = from->vendor_err;
		return;
	}
	to->kind = from->opcode;
	if (from->opcode & IBV_WC_RECV) // of a send's entry byte_len means little, and by device
		to->bytes = from->byte_len;
	if (from->wc_flags & IBV_WC_WITH_IMM)
		to->imm = ntohl(from->imm_data);
}

struct sv_result sv_poll(struct ibv_cq *cq, struct sv_completion *dst, int n, int turns)
{
	struct ibv_wc wcs[BURST];
	int done = 0;

	while (done < n) {
		int burst = n - done < BURST ? n - done : BURST;
		int got = cq->context->ops.poll_cq(cq, burst, wcs);
		if (got < 0)
			return (struct sv_result){done, got == -1 ? EIO : -got};
		for (int i = 0; i < got; i++)
			copy_completion(&dst[done + i], &wcs[i]);
		done += got;
		if (done ? got < burst : --turns <= 0)
			break;
	}
	return (struct sv_result){done, 0};
}

int sv_arm(struct ibv_cq *cq)
{
	int err = cq->context->ops.req_notify_cq(cq, 0);
	return err < 0 ? -err : err;
}
