//go:build rdma && cgo && linux

// The cold calls: each is one of libibverbs', with its structure filled in.
#include "library.h"

#include <errno.h>
#include <string.h>

struct ibv_device **sv_device_list(int *n) { return sv_lib.get_device_list(n); }
void sv_free_device_list(struct ibv_device **list) { sv_lib.free_device_list(list); }
const char *sv_device_name(struct ibv_device *dev) { return sv_lib.get_device_name(dev); }
struct ibv_context *sv_open(struct ibv_device *dev) { return sv_lib.open_device(dev); }
int sv_close(struct ibv_context *ctx) { return sv_lib.close_device(ctx) ? errno : 0; }
struct ibv_pd *sv_alloc_pd(struct ibv_context *ctx) { return sv_lib.alloc_pd(ctx); }
int sv_dealloc_pd(struct ibv_pd *pd) { return sv_lib.dealloc_pd(pd); }
int sv_dereg_mr(struct ibv_mr *mr) { return sv_lib.dereg_mr(mr); }
int sv_destroy_cq(struct ibv_cq *cq) { return sv_lib.destroy_cq(cq); }
int sv_destroy_qp(struct ibv_qp *qp) { return sv_lib.destroy_qp(qp); }

int sv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	return sv_lib.query_device(ctx, attr);
}

// The header's ibv_query_port would want the symbol at link time.
int sv_query_port(struct ibv_context *ctx, int port, struct sv_port *out)
{
	struct ibv_port_attr attr;
	struct verbs_context *vctx = verbs_get_ctx_op(ctx, query_port);
	int err;

	memset(&attr, 0, sizeof attr);
	if (vctx)
		err = vctx->query_port(ctx, port, &attr, sizeof attr);
	else
		err = sv_lib.query_port(ctx, port, (struct _compat_ibv_port_attr *)&attr);
	out->state = attr.state;
	out->mtu = attr.active_mtu;
	out->ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	out->lid = attr.lid;
	out->gids = attr.gid_tbl_len;
	out->message_max = attr.max_msg_sz;
	return err;
}

int sv_query_gid(struct ibv_context *ctx, int port, int index, uint8_t *out)
{
	union ibv_gid gid;

	// It returns -1 or an errno, by its version and its way to the kernel.
	errno = 0;
	int err = sv_lib.query_gid(ctx, port, index, &gid);
	if (err)
		return err > 0 ? err : errno ? errno : EINVAL;
	memcpy(out, gid.raw, sizeof gid.raw);
	return 0;
}

struct ibv_mr *sv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return sv_lib.reg_mr(pd, addr, length, access);
}

struct ibv_cq *sv_create_cq(struct ibv_context *ctx, int depth, struct ibv_comp_channel *ch)
{
	return sv_lib.create_cq(ctx, depth, NULL, ch, 0);
}

struct ibv_qp *sv_create_qp(struct ibv_pd *pd, struct ibv_cq *send, struct ibv_cq *recv,
                            int send_depth, int recv_depth, int sges)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = send,
		.recv_cq = recv,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 0,
		.cap = {
			.max_send_wr = send_depth,
			.max_recv_wr = recv_depth,
			.max_send_sge = sges,
			.max_recv_sge = 1,
		},
	};
	return sv_lib.create_qp(pd, &attr);
}

int sv_qp_init(struct ibv_qp *qp, int port, int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = 0,
		.port_num = port,
		.qp_access_flags = access,
	};
	return sv_lib.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int sv_qp_rtr(struct ibv_qp *qp, const struct sv_peering *p)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = p->mtu,
		.dest_qp_num = p->qpn,
		.rq_psn = p->psn,
		.max_dest_rd_atomic = p->max_reads,
		.min_rnr_timer = p->min_rnr,
		.ah_attr = {
			.dlid = p->lid,
			.port_num = p->port,
			.is_global = p->global,
			.grh = {.sgid_index = p->gid_index, .hop_limit = 64, .traffic_class = p->tclass},
		},
	};
	memcpy(attr.ah_attr.grh.dgid.raw, p->gid, sizeof p->gid);
	return sv_lib.modify_qp(qp, &attr,
	                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int sv_qp_rts(struct ibv_qp *qp, const struct sv_sending *s)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = s->psn,
		.timeout = s->timeout,
		.retry_cnt = s->retry,
		.rnr_retry = s->rnr_retry,
		.max_rd_atomic = s->max_reads,
	};
	return sv_lib.modify_qp(qp, &attr,
	                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	                            IBV_QP_MAX_QP_RD_ATOMIC);
}

int sv_qp_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	return sv_lib.modify_qp(qp, &attr, IBV_QP_STATE);
}
