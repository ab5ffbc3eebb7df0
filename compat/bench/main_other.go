//go:build !linux

// Command bench measures gregor beside Apache Kafka; it reads /proc and so needs Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: needs Linux, for what /proc tells of the brokers")
	os.Exit(1)
}
