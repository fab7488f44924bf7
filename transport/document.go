package transport

import (
	"encoding/json"

	"github.com/symphony-serving/symphony/transport/wire"
)

// SendDoc sends v as a document. A link that cannot take it is closed: whoever waits
// for a document would wait for ever.
func SendDoc(l Link, t wire.DocType, v any) {
	payload, err := json.Marshal(v)
	if err == nil {
		err = l.SendPayload((&wire.Doc{Type: t}).Append(nil, len(payload)), payload, nil)
	}
	if err != nil {
		l.Close(err)
	}
}
