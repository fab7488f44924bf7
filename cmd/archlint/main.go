package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	list := flag.Bool("single", false, "list the packages that start no goroutine, and end")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	files, err := load(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "archlint:", err)
		os.Exit(2)
	}
	if *list {
		for _, pkg := range single(files) {
			fmt.Println(module + "/" + pkg)
		}
		return
	}
	findings := check(root, files)
	packages, err := loadTyped(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "archlint:", err)
		os.Exit(2)
	}
	findings = append(findings, checkDiscards(discards(packages), stays())...)
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}
