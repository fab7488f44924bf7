package parts

import (
	"github.com/symphony-serving/symphony/backend"
	"github.com/symphony-serving/symphony/backend/shelf"
)

// shelf opens the folder where the backend keeps files of models; nil: it is to have none.
func (p *Process) shelf() (backend.Shelf, error) {
	c := p.cfg.Backend
	if c.Cache == "" {
		return nil, nil
	}
	s, err := shelf.Open(shelf.Config{Dir: c.Cache, Bytes: int64(c.CacheSize), Rate: int64(c.CacheRate),
		Warn: func(err error) { p.Log.Warn().Err(err).Msg("model cache") }})
	if err != nil {
		return nil, err
	}
	return s, nil
}
