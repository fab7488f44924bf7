package main

import (
	"fmt"

	"github.com/symphony-serving/symphony/cmd/symphony/version"
)

type versionCmd struct{}

// Run prints what --version prints.
func (versionCmd) Run() error {
	_, err := fmt.Println(version.Text())
	return err
}
