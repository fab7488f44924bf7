// Command client asks a running Symphony for the label of an image. It is an
// example to copy: a program that embeds the Go client library.
//
//	go run ./examples/client -scheduler tcp:127.0.0.1:9000 -model digits-cnn examples/digits/images/0-1.png
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
)

func main() {
	scheduler := flag.String("scheduler", "tcp:127.0.0.1:9000", "the scheduler's address")
	model := flag.String("model", "digits-cnn", "the model to ask")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: client [flags] IMAGE...")
		os.Exit(2)
	}
	if err := run(*scheduler, *model, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(scheduler, model string, images []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// One client a process is enough: it is safe for concurrent use, and it
	// reconnects by itself.
	client, err := frontend.Dial(ctx, frontend.Options{Scheduler: scheduler, Name: "example"})
	if err != nil {
		return err
	}
	defer client.Close()
	entry, err := client.Model(model, "")
	if err != nil {
		return err
	}
	labels, err := client.Labels(ctx, model, entry.Spec.Version)
	if err != nil {
		return err
	}
	for _, path := range images {
		image, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// The deadline is the model's SLO; Request.Timeout would set another.
		r, err := client.Infer(ctx, frontend.Request{Model: model, Image: image})
		switch {
		case errors.Is(err, frontend.ErrOverloaded), errors.Is(err, frontend.ErrDropped):
			fmt.Printf("%s: not now: %v\n", path, err) // a real application would shed or try later
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", path, err)
		}
		if len(r.Outputs) == 0 || r.Outputs[0].Type != catalog.FP32 {
			return fmt.Errorf("model %s gives no FP32 probabilities first: this example cannot read it", model)
		}
		best, probability := argmax(r.Outputs[0].Data)
		label := fmt.Sprint(best)
		if best < len(labels) {
			label = labels[best]
		}
		fmt.Printf("%s: %s (%.3f) in %v, batch of %d, %v left to the deadline\n", path, label, probability, r.Total.Round(time.Microsecond), r.BatchSize, r.Slack.Round(time.Microsecond))
	}
	return nil
}

// argmax finds the largest of the float32 probabilities.
func argmax(data []byte) (best int, probability float32) {
	probability = float32(math.Inf(-1))
	for i := 0; 4*i+4 <= len(data); i++ {
		if p := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])); p > probability {
			best, probability = i, p
		}
	}
	return best, probability
}
