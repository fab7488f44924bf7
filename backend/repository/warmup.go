package repository

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-serving/symphony/backend/warmup"
)

// WarmupDir is where files of warm-up inputs lie, in the model's folder. They belong to the
// model: they are watched and digested with it.
const WarmupDir = "warmup"

// warmup makes a model's warm-up inputs. Its files are read here, once, with config.yaml.
func (in place) warmup(dir string, f *file) (*warmup.Inputs, error) {
	var errs []error
	inputs := f.Warmup.Make(f.Inputs, func(path string, most int64) ([]byte, error) { return in.readWarmup(dir, path, most) },
		func(field, format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
		})
	return inputs, errors.Join(errs...)
}

// readWarmup reads a file of at most so many bytes.
func (in place) readWarmup(dir, path string, most int64) ([]byte, error) {
	clean := filepath.Clean(filepath.FromSlash(path))
	if !filepath.IsLocal(clean) || !strings.HasPrefix(clean, WarmupDir+string(filepath.Separator)) {
		return nil, fmt.Errorf("it must lie below %s/ in the model's folder, as in %s/x.bin", WarmupDir, WarmupDir)
	}
	at := filepath.Join(dir, clean)
	if _, err := in.stat(at); err != nil {
		return nil, err
	}
	f, _, err := openRegular(at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, fmt.Errorf("it is too large: the files of a model's warmup have at most %d bytes together", warmup.FilesMax)
	}
	return data, err
}
