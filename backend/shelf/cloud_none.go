//go:build !cloud

package shelf

import (
	"context"
	"fmt"
	"net/url"

	"gocloud.dev/blob"
)

// openBucket says what is missing: the stores' libraries are large (docs/dependencies.md).
func openBucket(_ context.Context, u *url.URL) (*blob.Bucket, error) {
	if u.Scheme != "s3" && u.Scheme != "gs" && u.Scheme != "azblob" {
		return nil, ErrURL
	}
	return nil, fmt.Errorf("this program was built without object stores: build it with `make build CLOUD=1` (go build -tags cloud), or mount the store and use file://")
}
