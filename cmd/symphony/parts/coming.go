package parts

import (
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

// coming are the models that this process's backend will load before it joins. Until then a request for one is answered
// with loading. The backend logs what is wrong with the repository.
func coming(c config.Backend) (keys []string) {
	if c.Repository == "" {
		return nil
	}
	models, _, err := repository.Load(c.Repository)
	if err != nil {
		return nil
	}
	for i := range models {
		keys = append(keys, models[i].Spec.Key())
	}
	return keys
}
