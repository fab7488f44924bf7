//go:build cloud

package shelf

import (
	"context"
	"net/url"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/s3blob"    // s3://
)

// openBucket opens an object store, with the credentials of the process's environment.
func openBucket(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	return blob.OpenBucket(ctx, u.String())
}
