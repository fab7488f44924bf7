// The C side of package verbs: libibverbs loaded at run time, and the calls that
// would be too many crossings if Go made them one by one. See doc.go.
#ifndef SYMPHONY_VERBS_SHIM_H
#define SYMPHONY_VERBS_SHIM_H

#include <infiniband/verbs.h>
#include <stdint.h>

// The memory of []rdma.SendWR, []rdma.RecvWR and []rdma.Completion as C sees it.
// Go's side of the same numbers is pinned by layout_test.go.
struct sv_sge {
	uint64_t addr;
	uint32_t length, lkey;
};
struct sv_send_wr {
	uint64_t id, remote;
	struct sv_sge sges[2];
	uint32_t op, rkey, imm;
	uint16_t num_sge;
	uint8_t signaled, fence;
};
struct sv_recv_wr {
	uint64_t id;
	struct sv_sge sge;
};
struct sv_completion {
	uint64_t id;
	uint32_t status, kind, bytes, imm, qp, vendor;
};

// How far a burst came, and the errno that ended it (0: none).
struct sv_result {
	int n, err;
};

// What ibv_qp_attr needs of rdma.Peering and rdma.Sending.
struct sv_peering {
	uint32_t qpn, psn;
	uint8_t gid[16];
	uint16_t lid;
	uint8_t mtu, port, gid_index, max_reads, min_rnr, tclass, global;
};
struct sv_sending {
	uint32_t psn;
	uint8_t timeout, retry, rnr_retry, max_reads;
};

// An asynchronous event; kind is an ibv_event_type.
struct sv_event {
	uint32_t kind, qp, port;
};

struct sv_port {
	uint8_t state, mtu, ethernet;
	uint16_t lid;
	int32_t gids;
	uint32_t message_max;
};

// load.c: 0, or -1 with the reason in why.
int sv_load(char *why, int len);

// control.c: functions that return a pointer leave errno when it is NULL; those
// that return an int return 0 or an errno.
struct ibv_device **sv_device_list(int *n);
void sv_free_device_list(struct ibv_device **list);
const char *sv_device_name(struct ibv_device *dev);
struct ibv_context *sv_open(struct ibv_device *dev);
int sv_close(struct ibv_context *ctx);
struct ibv_pd *sv_alloc_pd(struct ibv_context *ctx);
int sv_dealloc_pd(struct ibv_pd *pd);
int sv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr);
int sv_query_port(struct ibv_context *ctx, int port, struct sv_port *out);
int sv_query_gid(struct ibv_context *ctx, int port, int index, uint8_t *out);
struct ibv_mr *sv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
int sv_dereg_mr(struct ibv_mr *mr);
struct ibv_cq *sv_create_cq(struct ibv_context *ctx, int depth, struct ibv_comp_channel *ch);
int sv_destroy_cq(struct ibv_cq *cq);
struct ibv_qp *sv_create_qp(struct ibv_pd *pd, struct ibv_cq *send, struct ibv_cq *recv,
                            int send_depth, int recv_depth, int sges);
int sv_destroy_qp(struct ibv_qp *qp);
int sv_qp_init(struct ibv_qp *qp, int port, int access);
int sv_qp_rtr(struct ibv_qp *qp, const struct sv_peering *p);
int sv_qp_rts(struct ibv_qp *qp, const struct sv_sending *s);
int sv_qp_error(struct ibv_qp *qp);

// events.c
int sv_nonblocking(int fd);
struct ibv_comp_channel *sv_create_channel(struct ibv_context *ctx);
int sv_destroy_channel(struct ibv_comp_channel *ch);
// n is 1 with a completion event, 0 with none of them: woken or timed out.
struct sv_result sv_wait(struct ibv_comp_channel *ch, int wake_fd, int64_t timeout_ns);
struct sv_result sv_async(struct ibv_context *ctx, struct sv_event *dst, int n);

// data.c
struct sv_result sv_post_send(struct ibv_qp *qp, const struct sv_send_wr *wrs, int n);
struct sv_result sv_post_recv(struct ibv_qp *qp, const struct sv_recv_wr *wrs, int n);
struct sv_result sv_poll(struct ibv_cq *cq, struct sv_completion *dst, int n, int turns);
int sv_arm(struct ibv_cq *cq);

#endif
