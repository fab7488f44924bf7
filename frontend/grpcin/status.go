package grpcin

import (
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/transport/wire"
)

// domain is whose reasons they are, in ErrorInfo.
const domain = "symphony"

// errChanged refuses a request whose model became another while it came.
var errChanged = &frontend.Error{Kind: frontend.ErrUnavailable, Reason: wire.ReasonUnavailable, Msg: "the model has just changed: try again"}

// badRequest is the refusal of what is no request; err says what is wrong.
func badRequest(err error) error {
	var bad *oip.Error
	if errors.As(err, &bad) {
		return err
	}
	return oip.Errorf("", "%v", err)
}

// status is the answer to a request that was refused, for whatever reason.
func (s *Server) status(model, version string, err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	r := s.cfg.Web.Refusal(model, version, err)
	info := &errdetails.ErrorInfo{Reason: strings.ToUpper(r.Reason), Domain: domain}
	if model != "" {
		info.Metadata = map[string]string{"model": model}
		if r.ID != "" {
			info.Metadata["request"] = r.ID
		}
	}
	st := status.New(codeOf(r.Status, r.Reason), r.Msg)
	detailed, failed := st.WithDetails(info)
	if r.After > 0 && failed == nil {
		detailed, failed = detailed.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(r.After)})
	}
	if failed != nil { // a text that is no UTF-8: the code says what counts
		return st.Err()
	}
	return detailed.Err()
}

// codeOf is gRPC's code for what HTTP answers by a status and a reason.
func codeOf(httpStatus int, reason string) codes.Code {
	switch reason {
	case wire.ReasonFull.String(), wire.ReasonShed.String(), wire.ReasonMemory.String(), wire.ReasonUnsent.String(), wire.ReasonIsolated.String(), "too_large":
		return codes.ResourceExhausted
	case wire.ReasonDeadline.String(), wire.ReasonExpired.String(), wire.ReasonLate.String():
		return codes.DeadlineExceeded
	case wire.ReasonCancelled.String():
		return codes.Canceled
	}
	switch httpStatus {
	case 400:
		return codes.InvalidArgument
	case 404:
		return codes.NotFound
	case 409:
		return codes.AlreadyExists
	case 501:
		return codes.Unimplemented
	case 503:
		return codes.Unavailable
	}
	return codes.Internal
}
