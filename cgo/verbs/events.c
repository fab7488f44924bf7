//go:build rdma && cgo && linux

// Sleeping for completions, and the device's asynchronous events.
#define _GNU_SOURCE
#include "library.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

int sv_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return errno;
	return 0;
}

struct ibv_comp_channel *sv_create_channel(struct ibv_context *ctx) { return sv_lib.create_comp_channel(ctx); }
int sv_destroy_channel(struct ibv_comp_channel *ch) { return sv_lib.destroy_comp_channel(ch); }

static int64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

// Takes every event that has come and acknowledges it at once: destroying a CQ
// waits for the acknowledgement of its events.
static struct sv_result drain(struct ibv_comp_channel *ch)
{
	struct sv_result r = {0, 0};
	struct ibv_cq *cq;
	void *context;

	while (!sv_lib.get_cq_event(ch, &cq, &context)) {
		sv_lib.ack_cq_events(cq, 1);
		r.n = 1;
	}
	if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
		r.err = errno;
	return r;
}

struct sv_result sv_wait(struct ibv_comp_channel *ch, int wake_fd, int64_t timeout_ns)
{
	struct pollfd fds[2] = {{.fd = ch->fd, .events = POLLIN}, {.fd = wake_fd, .events = POLLIN}};
	int64_t start = now_ns();
	int64_t left = timeout_ns < 0 ? 0 : timeout_ns;

	for (;;) {
		struct timespec ts = {left / 1000000000, left % 1000000000};
		int ready = ppoll(fds, 2, &ts, NULL);
		if (ready == 0)
			return (struct sv_result){0, 0};
		if (ready > 0)
			break;
		if (errno != EINTR)
			return (struct sv_result){0, errno};
		// Go's runtime interrupts threads to preempt goroutines: sleep the rest.
		left = timeout_ns - (now_ns() - start);
		if (left < 0)
			left = 0;
	}
	if (fds[1].revents) {
		uint64_t count;
		if (read(wake_fd, &count, sizeof count) < 0 && errno != EAGAIN)
			return (struct sv_result){0, errno};
	}
	return fds[0].revents ? drain(ch) : (struct sv_result){0, 0};
}

static void describe(const struct ibv_async_event *from, struct sv_event *to)
{
	*to = (struct sv_event){.kind = from->event_type};
	switch (from->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		to->qp = from->element.qp->qp_num;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		to->port = from->element.port_num;
		break;
	default:
		break;
	}
}

struct sv_result sv_async(struct ibv_context *ctx, struct sv_event *dst, int n)
{
	struct sv_result r = {0, 0};
	struct ibv_async_event event;

	while (r.n < n && !sv_lib.get_async_event(ctx, &event)) {
		describe(&event, &dst[r.n++]);
		sv_lib.ack_async_event(&event);
	}
	if (r.n < n && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
		r.err = errno;
	return r;
}
